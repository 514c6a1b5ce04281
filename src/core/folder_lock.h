// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace tr {

/// Keeps a folder for one writer while it lives, by an advisory lock that the system drops with the
/// process, however it ends. On a file system without locks it keeps nothing.
class FolderLock {
 public:
  /// @throws DataError  another process, or another lock of this one, has the folder.
  explicit FolderLock(const std::string& folder);
  ~FolderLock();
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace tr
