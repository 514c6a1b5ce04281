// SPDX-License-Identifier: Apache-2.0
// Where the sets that can be fetched lie, and what they hold.
#include <filesystem>
#include <span>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/input_file.h"
#include "core/sha256.h"
#include "data/download.h"
#include "data/formats/tar.h"

namespace tr::data {
namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;  // a folder that cannot be read shows when it is written
  return fs::exists(path, error);
}

/// NAME.gz files, but those that are there, gzip or plain.
void fetch_missing(std::span<const RemoteFile> files, const std::string& dir,
                   const DownloadOptions& options) {
  for (const RemoteFile& file : files) {
    const std::string plain = file.name.substr(0, file.name.size() - 3);
    if (is_there(fs::path(dir) / plain) || is_there(fs::path(dir) / file.name)) continue;
    download_file(file, dir, options);
  }
}

struct CifarArchive {
  RemoteFile archive;
  const char* folder;
  std::vector<ArchiveFile> files;
};

CifarArchive cifar_archive(CifarKind kind) {
  if (kind == CifarKind::CIFAR100) {
    return {{"cifar-100-binary.tar.gz",
             "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", true},
            "cifar-100-binary",
            {{"train.bin", "f31298fc616915fa142368359df1c4ca2ae984d6915ca468b998a5ec6aeebf29"},
             {"test.bin", "d8b1e6b7b3bee4020055f0699b111f60b1af1e262aeb93a0b659061746f8224a"}}};
  }
  return {{"cifar-10-binary.tar.gz",
           "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", true},
          "cifar-10-batches-bin",
          {{"data_batch_1.bin", "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5"},
           {"data_batch_2.bin", "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed"},
           {"data_batch_3.bin", "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67"},
           {"data_batch_4.bin", "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48"},
           {"data_batch_5.bin", "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add"},
           {"test_batch.bin", "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"}}};
}

}  // namespace

DownloadOptions mnist_download_options() {
  return {.mirrors = {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                      "https://storage.googleapis.com/cvdf-datasets/mnist/"}};
}

void download_mnist(const std::string& dir, const DownloadOptions& options) {
  const RemoteFile files[] = {{"train-images-idx3-ubyte.gz",
                               "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"},
                              {"train-labels-idx1-ubyte.gz",
                               "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"},
                              {"t10k-images-idx3-ubyte.gz",
                               "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"},
                              {"t10k-labels-idx1-ubyte.gz",
                               "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}};
  fetch_missing(files, dir, options);
}

DownloadOptions fashion_mnist_download_options() {
  return {.mirrors = {"https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
                      "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"}};
}

void download_fashion_mnist(const std::string& dir, const DownloadOptions& options) {
  const RemoteFile files[] = {
      {"train-images-idx3-ubyte.gz",
       "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", true},
      {"train-labels-idx1-ubyte.gz",
       "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", true},
      {"t10k-images-idx3-ubyte.gz",
       "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", true},
      {"t10k-labels-idx1-ubyte.gz",
       "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", true}};
  fetch_missing(files, dir, options);
}

DownloadOptions cifar_download_options() {
  return {.mirrors = {"https://www.cs.toronto.edu/~kriz/"}};
}

void download_cifar(const std::string& dir, CifarKind kind, const DownloadOptions& options) {
  const CifarArchive set = cifar_archive(kind);
  const fs::path archive = fs::path(dir) / set.archive.name;
  if (!is_there(archive)) download_file(set.archive, dir, options);
  unpack_archive(archive.string(), (fs::path(dir) / set.folder).string(), set.files);
  std::error_code error;  // an archive that stays costs room only
  fs::remove(archive, error);
}

void unpack_archive(const std::string& archive, const std::string& target,
                    const std::vector<ArchiveFile>& files) {
  make_folder(target);
  std::size_t written = 0;
  for_each_tar_file(read_bytes(archive), archive, [&](const TarFile& file) {
    for (const ArchiveFile& wanted : files) {
      if (fs::path(file.name).filename() != wanted.name) continue;
      const std::string hash = sha256_hex(file.bytes);
      if (hash != wanted.sha256) {
        throw_as<DataError>("{}: SHA-256 of {} in it is {}, expected {}", archive, wanted.name,
                            hash, wanted.sha256);
      }
      write_file_atomically((fs::path(target) / wanted.name).string(), file.bytes);
      ++written;
    }
  });
  if (written != files.size()) {
    throw_as<DataError>("{}: holds {} of the {} files that belong to the set", archive, written,
                        files.size());
  }
}

}  // namespace tr::data
