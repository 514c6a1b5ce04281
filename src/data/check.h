// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "data/picture_layouts.h"
#include "renaissance/data/dataset.h"

namespace tr::data {

/// Reads the whole set `name` at `path`; one line a fault, empty if it is sound. Goes on after a
/// fault where it can, so that one run tells everything: pictures are decoded whole.
/// @throws InvalidArgument  as open_dataset() for the name.
std::vector<std::string> check_dataset(const std::string& name, const std::string& path,
                                       double val_fraction = 0);

/// What a split holds, every sample read and every picture decoded once.
struct SplitReport {
  std::int64_t num_samples = 0;
  std::vector<std::int64_t> class_counts;             // by class; empty: no field "label"
  std::map<std::pair<int, int>, std::int64_t> sizes;  // (height, width) -> pictures
  std::map<std::string, std::int64_t> formats;        // "JPEG, several scans" ...
  std::int64_t num_pixels = 0;                        // of all sound pictures
  std::vector<double> mean, std;                      // by channel, of values in 0..1
  std::vector<std::vector<std::string>> duplicates;   // samples with the same bytes
  std::vector<std::string> faults;                    // in the order of the samples
  std::vector<std::string> warnings;                  // of decoders: pixels are intact
};

/// @param num_threads  0: the processor's cores. The report does not depend on it.
/// @throws Unsupported  the field "image" is there and is not UINT8.
SplitReport report_split(const Dataset& set, int num_threads = 0);

/// The files of a set of pictures, its validation set split off as asked.
/// @throws Unsupported  `name` is a set that is no set of picture files.
PictureLists list_pictures(const std::string& name, const std::string& path,
                           const SplitOptions& options);

/// Writes the lists as a set "csv" into folder `target`: train.csv, val.csv if there is one, and
/// classes.txt if classes have names. Paths are relative to `target`, labels are numbers. The same
/// lists give the same bytes. @throws DataError  the folder cannot be written; a class's name has a
/// line break.
void write_csv_set(const PictureLists& lists, const std::string& target);

}  // namespace tr::data
