// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tr::data {

/// A file to fetch. The hash is of what it holds: after gunzip if it is a gzip file, so that a
/// wrapper made anew is accepted.
struct RemoteFile {
  std::string name;            // in every mirror and in the target folder
  std::string payload_sha256;  // 64 lower-case hexadecimal digits
};

struct DownloadOptions {
  std::vector<std::string> mirrors;  // base URLs, http or https, with or without a slash at the end
  double connect_timeout_s = 15;
  double stall_s = 30;       // without a byte for so long, the transfer is broken off
  int tries_per_mirror = 4;  // a cut transfer goes on where it ended
};

/// Fetches `file` into folder `dir` (made if missing): to NAME.part, resumed there if an earlier
/// try left one, hash checked, then renamed; so NAME is whole or absent. Mirrors are tried in turn.
/// @throws DataError  every mirror failed (the message gives each one's reason), or the disk did.
void download_file(const RemoteFile& file, const std::string& dir, const DownloadOptions& options);

/// The two public mirrors of MNIST.
DownloadOptions mnist_download_options();
/// The four files, those that exist left alone.
void download_mnist(const std::string& dir, const DownloadOptions& options);

}  // namespace tr::data
