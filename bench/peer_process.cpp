// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "bench_report.h"
#include "core/check.h"

namespace tr::bench {

PeerProcess::PeerProcess(const std::string& python, const std::vector<std::string>& arguments) {
  std::array<int, 2> down{}, up{};
  // No later peer inherits an end: this one would wait for its end of input as long as that lives.
  if (pipe2(down.data(), O_CLOEXEC) != 0 || pipe2(up.data(), O_CLOEXEC) != 0)
    throw_as<DataError>("peer {}: no pipe: {}", python, std::strerror(errno));
  std::vector<char*> argv{const_cast<char*>(python.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  signal(SIGPIPE, SIG_IGN);  // a peer that died is reported by ask()
  pid_ = fork();
  if (pid_ < 0) throw_as<DataError>("peer {}: cannot start: {}", python, std::strerror(errno));
  if (pid_ == 0) {
    dup2(down[0], STDIN_FILENO);
    dup2(up[1], STDOUT_FILENO);
    execvp(python.c_str(), argv.data());
    _exit(127);
  }
  close(down[0]);
  close(up[1]);
  to_peer_ = down[1];
  from_peer_ = up[0];
}

PeerProcess::~PeerProcess() {
  close(to_peer_);  // end of input: the peer's loop ends
  close(from_peer_);
  waitpid(pid_, nullptr, 0);
}

std::string PeerProcess::ask(const std::string& line, double time_out_s) {
  const std::string message = line + "\n";
  if (write(to_peer_, message.data(), message.size()) != ssize_t(message.size()))
    throw_as<DataError>("peer: ended before '{}': {}", line, std::strerror(errno));
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string answer = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return answer;
    }
    pollfd ready{from_peer_, POLLIN, 0};
    if (poll(&ready, 1, int(time_out_s * 1e3)) <= 0)
      throw_as<DataError>("peer: no answer to '{}' within {} s", line, time_out_s);
    std::array<char, 4096> bytes{};
    const ssize_t got = read(from_peer_, bytes.data(), bytes.size());
    if (got <= 0) throw_as<DataError>("peer: ended while '{}' was asked", line);
    pending_.append(bytes.data(), std::size_t(got));
  }
}

std::string find_peer(const std::string& name) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  for (auto folder = program.parent_path(); folder != folder.root_path();
       folder = folder.parent_path()) {
    if (auto path = folder / "bench" / "peers" / name; std::filesystem::exists(path))
      return path.string();
  }
  throw_as<DataError>("bench/peers/{}: not found in any folder above {}", name, program.string());
}

}  // namespace tr::bench
