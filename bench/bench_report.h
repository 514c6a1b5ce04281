// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tr::bench {

/// Median and interquartile range of n samples. @throws InvalidArgument  there are none.
struct Summary {
  double median = 0;
  double spread = 0;  // third minus first quartile, in the samples' unit
  int n = 0;
};
Summary summarize(std::vector<double> samples);

/// One measurement. `ratio` says how many times better than the peer we are, whatever the unit.
struct Row {
  std::string name;
  double value = 0;
  std::string unit;
  int n = 0;
  double spread = 0;
  std::string peer;                  // "torch 2.11.0, 2 threads"; empty: not compared
  std::optional<double> peer_value;  // in `unit`
  std::optional<double> ratio;
  std::optional<double> error;  // measured beside the speed: difference from the reference
};

/// Row of a time-like unit (less is better) or of a rate.
Row make_row(std::string name, std::string unit, const Summary& ours);
void set_peer(Row& row, std::string peer, const Summary& theirs, bool less_is_better);

/// Collects rows, prints each on standard error and, if asked, writes {env, command, rows[]} as
/// JSON.
class Report {
 public:
  /// `command` is the program's own command line.
  Report(int argc, char** argv);
  /// Adds a fact to `env` beside the processor's name, its number of cores and the compiler.
  void set_env(const std::string& key, const std::string& value) { env_[key] = value; }
  void add(Row row);
  std::string json() const;
  /// "-": standard output. Empty: nothing. @throws DataError  the file cannot be written.
  void write_json(const std::string& path) const;

 private:
  std::string command_;
  std::map<std::string, std::string> env_;
  std::vector<Row> rows_;
};

/// main() of a benchmark: run(argc, argv), an exception printed behind the program's name as exit
/// status 1.
int run_main(int (*run)(int, char**), int argc, char** argv);

/// A peer program that stays alive between measurements, so that both sides can take turns: one
/// line in, one line out. Started with `python arguments...`; ended with the object.
class PeerProcess {
 public:
  /// @throws DataError  the program cannot be started.
  PeerProcess(const std::string& python, const std::vector<std::string>& arguments);
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  /// Writes `line`, returns the answer line.
  /// @throws DataError  the peer ended, or did not answer within time_out_s.
  std::string ask(const std::string& line, double time_out_s = 600);

 private:
  int pid_ = -1;
  int to_peer_ = -1;
  int from_peer_ = -1;
  std::string pending_;
};

/// Path of `bench/peers/NAME` of the tree that holds the running program (searched upwards from
/// it).
/// @throws DataError  there is none.
std::string find_peer(const std::string& name);

}  // namespace tr::bench
