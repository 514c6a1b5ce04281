// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/formats/cifar.h"

namespace tr::data {

/// A file to fetch. The hash is of what it holds: after gunzip if it is a gzip file, so that a
/// wrapper made anew is accepted; or of the file as it is, where only that is known.
struct RemoteFile {
  std::string name;            // in every mirror and in the target folder
  std::string payload_sha256;  // 64 lower-case hexadecimal digits
  bool wrapper_too = false;    // the hash is of the file as it is
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

DownloadOptions fashion_mnist_download_options();
void download_fashion_mnist(const std::string& dir, const DownloadOptions& options);

/// The archive's own server.
DownloadOptions cifar_download_options();
/// Fetches the archive and unpacks its batch files into the folder that it names in `dir`, each
/// checked by its own hash; the archive is removed.
void download_cifar(const std::string& dir, CifarKind kind, const DownloadOptions& options);

/// A file in an archive, and its hash.
struct ArchiveFile {
  std::string name;  // without folders
  std::string sha256;
};
/// Writes the files of a tar archive (plain or gzip) that are asked for into folder `target`, each
/// whole or not at all. @throws DataError  one is missing, damaged or has another hash.
void unpack_archive(const std::string& archive, const std::string& target,
                    const std::vector<ArchiveFile>& files);

}  // namespace tr::data
