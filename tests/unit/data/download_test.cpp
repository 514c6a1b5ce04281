// SPDX-License-Identifier: Apache-2.0
#include "data/download.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <filesystem>

#include "core/input_file.h"
#include "core/philox.h"
#include "core/sha256.h"
#include "renaissance/core/error.h"
#include "renaissance/core/log.h"
#include "support/temp_folder.h"
#include "support/throws.h"
#include "unit/data/loopback_server.h"

namespace tr::data {
namespace {

using test::LoopbackServer;
using test::TempFolder;
using test::throws;

std::string payload() {
  std::string text(20000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) {
    text[i] = char(DrawAddress{1, DrawPurpose::TEST, i, 0}.block(0).v[0]);
  }
  return text;
}

std::string gzipped(const std::string& text, int level) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(text.size() + 1000, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

class DownloadTest : public testing::Test {
 protected:
  DownloadTest() : old_sink_(set_log_sink([](LogLevel, std::string_view) {})) {}
  ~DownloadTest() override { set_log_sink(old_sink_); }

  void fetch(std::vector<std::string> kinds) {
    DownloadOptions options{.connect_timeout_s = 5, .stall_s = 1, .tries_per_mirror = 2};
    for (const std::string& kind : kinds) options.mirrors.push_back(server_.url(kind));
    download_file(file_, folder_.path("sub"), options);
  }
  void expect_whole() {
    EXPECT_EQ(read_text(folder_.path("sub/file")), body_);
    EXPECT_FALSE(std::filesystem::exists(folder_.path("sub/file.part")));
  }

  const std::string body_ = payload();
  const RemoteFile file_{"file", sha256_hex(std::as_bytes(std::span(body_)))};
  LoopbackServer server_{body_};
  TempFolder folder_;
  LogSink old_sink_;
};

TEST_F(DownloadTest, FetchesIntoANewFolder) {
  fetch({"good/"});
  expect_whole();
  EXPECT_EQ(server_.requests(), (std::vector<std::string>{"/good/file 0"}));
}

TEST_F(DownloadTest, AMissingFileLeadsToTheNextMirror) {
  fetch({"missing", "good"});
  expect_whole();
}

TEST_F(DownloadTest, ABadHashLeadsToTheNextMirror) {
  fetch({"bad", "good"});
  expect_whole();
  EXPECT_EQ(server_.requests(), (std::vector<std::string>{"/bad/file 0", "/good/file 0"}));
}

TEST_F(DownloadTest, ABadHashEverywhereLeavesNoFile) {
  EXPECT_TRUE(throws<DataError>(
      [&] {
        fetch({"bad", "bad"});
      },
      "expected " + file_.payload_sha256));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("sub/file")));
}

TEST_F(DownloadTest, ACutTransferGoesOnWhereItEnded) {
  fetch({"cut"});
  expect_whole();
  EXPECT_EQ(server_.requests(), (std::vector<std::string>{"/cut/file 0", "/cut/file 10000"}));
}

TEST_F(DownloadTest, AServerWithoutRangesIsAskedAnew) {
  fetch({"norange"});
  expect_whole();
}

TEST_F(DownloadTest, AStallIsBrokenOffAndTheNextMirrorTaken) {
  fetch({"stall", "good"});
  expect_whole();
}

TEST_F(DownloadTest, ALaterRunResumes) {
  folder_.write("x", "");  // the folder exists
  std::filesystem::create_directory(folder_.path("sub"));
  folder_.write("sub/file.part", body_.substr(0, 12345));
  fetch({"good"});
  expect_whole();
  EXPECT_EQ(server_.requests(), (std::vector<std::string>{"/good/file 12345"}));
}

TEST_F(DownloadTest, AnOtherMirrorsRemainderIsThrownAway) {
  std::filesystem::create_directory(folder_.path("sub"));
  folder_.write("sub/file.part", std::string(12345, 'x'));
  fetch({"good"});
  expect_whole();
  EXPECT_EQ(server_.requests(), (std::vector<std::string>{"/good/file 12345", "/good/file 0"}));
}

TEST_F(DownloadTest, AFinishedRemainderNeedsNoServer) {
  std::filesystem::create_directory(folder_.path("sub"));
  folder_.write("sub/file.part", body_);
  fetch({"missing"});
  expect_whole();
  EXPECT_TRUE(server_.requests().empty());
}

TEST_F(DownloadTest, EveryMirrorsReasonIsTold) {
  EXPECT_TRUE(throws<DataError>([&] { fetch({"missing", "missing"}); }, "404"));
  EXPECT_TRUE(throws<DataError>([&] { fetch({"missing"}); }, server_.url("missing/file")));
}

TEST_F(DownloadTest, NobodyListeningIsAnError) {
  const DownloadOptions options{
      .mirrors = {"http://127.0.0.1:9/"}, .connect_timeout_s = 2, .tries_per_mirror = 1};
  EXPECT_TRUE(
      throws<DataError>([&] { download_file(file_, folder_.path(), options); }, "127.0.0.1:9"));
}

TEST_F(DownloadTest, AnUnwritableFolderIsAnError) {
  folder_.write("sub", "a file where the folder should be");
  EXPECT_TRUE(throws<DataError>([&] { fetch({"good"}); }, folder_.path("sub")));
}

// The hash is of the contents: whoever gzips them, with whatever settings, is right.
TEST_F(DownloadTest, GzipWrappersMayDiffer) {
  for (const int level : {1, 9}) {
    const LoopbackServer server(gzipped(body_, level));
    download_file({"file" + std::to_string(level), file_.payload_sha256}, folder_.path(),
                  {.mirrors = {server.url("good")}});
    EXPECT_EQ(read_text(folder_.path("file" + std::to_string(level))), gzipped(body_, level));
  }
}

// Where only the hash of the wrapper is known, another wrapper is another file.
TEST_F(DownloadTest, TheHashMayBeOfTheFileAsItIs) {
  const std::string packed = gzipped(body_, 6);
  const LoopbackServer server(packed);
  const std::string hash = sha256_hex(std::as_bytes(std::span(packed)));
  download_file({"file", hash, true}, folder_.path(), {.mirrors = {server.url("good")}});
  EXPECT_EQ(read_text(folder_.path("file")), packed);
  EXPECT_TRUE(throws<DataError>(
      [&] {
        download_file({"other", file_.payload_sha256, true}, folder_.path(),
                      {.mirrors = {server.url("good")}});
      },
      "SHA-256 of the file is " + hash));
}

/// A tar archive of regular files below a folder, with the entry of that folder.
std::string tar_of(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string archive;
  const auto add = [&](const std::string& name, const std::string& body, char kind) {
    std::string header(512, '\0');
    const auto put = [&](std::size_t at, const std::string& text) {
      header.replace(at, text.size(), text);
    };
    char octal[12];
    std::snprintf(octal, sizeof octal, "%011zo", body.size());
    put(0, name);
    put(124, octal);
    put(156, std::string(1, kind));
    put(148, "        ");
    unsigned sum = 0;
    for (const char c : header) sum += static_cast<unsigned char>(c);
    std::snprintf(octal, sizeof octal, "%06o", sum);
    put(148, octal);
    header[154] = '\0';
    archive += header + body + std::string((512 - body.size() % 512) % 512, '\0');
  };
  add("set/", "", '5');
  for (const auto& [name, body] : files) add("set/" + name, body, '0');
  return archive + std::string(1024, '\0');
}

TEST_F(DownloadTest, AnArchiveGivesTheFilesThatAreAskedFor) {
  const std::string other(700, 'y');
  const ArchiveFile a{"a.bin", sha256_hex(std::as_bytes(std::span(body_)))};
  const ArchiveFile b{"b.bin", sha256_hex(std::as_bytes(std::span(other)))};
  const std::string archive = tar_of({{"a.bin", body_}, {"readme.html", "x"}, {"b.bin", other}});
  for (const std::string& bytes : {archive, gzipped(archive, 6)}) {
    folder_.write("t", bytes);
    const std::string target = folder_.path(bytes == archive ? "plain" : "packed");
    unpack_archive(folder_.path("t"), target, {a, b});
    EXPECT_EQ(read_text(target + "/a.bin"), body_);
    EXPECT_EQ(read_text(target + "/b.bin"), other);
    EXPECT_FALSE(std::filesystem::exists(target + "/readme.html"));
  }
  const auto fails = [&](const std::string& bytes, const std::vector<ArchiveFile>& files,
                         std::string_view words) {
    folder_.write("t", bytes);
    return throws<DataError>([&] { unpack_archive(folder_.path("t"), folder_.path("out"), files); },
                             words);
  };
  EXPECT_TRUE(fails(archive, {{"a.bin", b.sha256}}, "SHA-256 of a.bin in it is " + a.sha256));
  EXPECT_TRUE(fails(archive, {a, {"c.bin", b.sha256}}, "holds 1 of the 2 files"));
  EXPECT_TRUE(fails(archive.substr(0, 9000), {a}, "the archive is cut"));
  std::string damaged = archive;
  damaged[3] = 'X';
  EXPECT_TRUE(fails(damaged, {a}, "a header has a wrong checksum"));
  EXPECT_TRUE(fails(std::string(5000, 'q'), {a}, "is no tar archive"));
}

TEST(MnistDownloadTest, ListsTwoHttpsMirrors) {
  const DownloadOptions options = mnist_download_options();
  ASSERT_EQ(options.mirrors.size(), 2u);
  for (const std::string& mirror : options.mirrors)
    EXPECT_TRUE(mirror.starts_with("https://")) << mirror;
}

}  // namespace
}  // namespace tr::data
