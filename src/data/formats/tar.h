// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace tr::data {

/// A regular file of an archive; the bytes are there during the call only.
struct TarFile {
  std::string name;  // with its folders
  std::span<const std::byte> bytes;
};

/// Calls `visit` for each regular file of a tar archive, plain or gzip, in order. Folders, links
/// and the headers of extensions are passed over. `who` (the path) opens every message.
/// Source: POSIX.1-1988 ustar.
/// @throws DataError  a header's checksum is wrong, or the archive is cut.
void for_each_tar_file(std::span<const std::byte> bytes, const std::string& who,
                       const std::function<void(const TarFile&)>& visit);

}  // namespace tr::data
