// SPDX-License-Identifier: Apache-2.0
#include "data/file_reader.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "core/block_signals.h"
#include "core/check.h"
#include "core/input_file.h"
#include "core/printable.h"
#include "data/cached_read.h"

namespace tr::data {
namespace {

/// What a thread and the one that waits for it share; the thread may outlive the reader.
struct Companion {
  enum class State { IDLE, ASKED, DONE, LEFT };

  ReadFile read;
  std::shared_ptr<std::atomic<int>> num_stuck;
  std::mutex mutex;
  std::condition_variable_any changed;
  State state = State::IDLE;
  std::string path;
  std::vector<std::byte> bytes;
  std::exception_ptr error;

  void run() {
    std::unique_lock lock(mutex);
    for (;;) {
      changed.wait(lock, [this] { return state == State::ASKED || state == State::LEFT; });
      if (state == State::LEFT) return;
      lock.unlock();
      std::exception_ptr fault;
      try {
        read(path, bytes);
      } catch (...) {  // handed to the thread that waits
        fault = std::current_exception();
      }
      lock.lock();
      if (state == State::LEFT) {  // nobody waits any more
        num_stuck->fetch_sub(1);
        return;
      }
      error = fault;
      state = State::DONE;
      changed.notify_all();
    }
  }
};

struct Hand {
  std::shared_ptr<Companion> companion;
  std::thread thread;
};

}  // namespace

void read_whole_file(const std::string& path, std::vector<std::byte>& bytes) {
  const InputFile file(path);
  if (file.num_bytes() > kMaxPictureBytes) {
    throw_as<DataError>("{}: has {} bytes, at most {} are accepted", printable(path),
                        file.num_bytes(), kMaxPictureBytes);
  }
  bytes.resize(std::size_t(file.num_bytes()));
  file.read(0, bytes);
}

struct FileReader::Impl {
  explicit Impl(FileReaderOptions given) : options(std::move(given)) {
    TR_CHECK(options.timeout_s >= 0 && options.timeout_s <= 86400,
             "read_timeout is {} s, expected 0 (none) to 86400", options.timeout_s);
    if (options.read) return;
    cached.emplace();
    options.read = read_whole_file;
  }

  ~Impl() {
    for (Hand& hand : idle) {
      {
        const std::lock_guard lock(hand.companion->mutex);
        hand.companion->state = Companion::State::LEFT;
      }
      hand.companion->changed.notify_all();
      hand.thread.join();
    }
  }

  Hand take(const std::string& path) {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        Hand hand = std::move(idle.back());
        idle.pop_back();
        return hand;
      }
    }
    Hand hand;
    hand.companion = std::make_shared<Companion>();
    hand.companion->read = options.read;
    hand.companion->num_stuck = num_stuck;
    const BlockSignals blocked;  // they are the program's threads' business
    try {
      hand.thread = std::thread([companion = hand.companion] { companion->run(); });
    } catch (const std::system_error& error) {
      throw_as<OutOfMemory>("{}: no thread can be started to read it ({})", printable(path),
                            error.what());
    }
    return hand;
  }

  void give_back(Hand hand) {
    const std::lock_guard lock(mutex);
    idle.push_back(std::move(hand));
  }

  FileReaderOptions options;
  std::optional<CachedFiles> cached;
  std::shared_ptr<std::atomic<int>> num_stuck = std::make_shared<std::atomic<int>>(0);
  std::mutex mutex;
  std::vector<Hand> idle;
};

FileReader::FileReader(FileReaderOptions options)
    : impl_(std::make_unique<Impl>(std::move(options))) {}

FileReader::~FileReader() = default;

int FileReader::num_stuck() const { return impl_->num_stuck->load(); }

void FileReader::read(const std::string& path, std::vector<std::byte>& bytes,
                      const std::stop_token& stop) {
  Impl& m = *impl_;
  if (m.options.timeout_s == 0) {
    m.options.read(path, bytes);
    return;
  }
  if (m.cached && m.cached->read(path, bytes)) return;
  if (num_stuck() >= kMaxStuck) {
    throw_as<DataError>("{}: is not read, {} reads before it are without an answer",
                        printable(path), num_stuck());
  }
  Hand hand = m.take(path);
  Companion& companion = *hand.companion;
  std::unique_lock lock(companion.mutex);
  companion.path = path;
  std::swap(companion.bytes, bytes);
  companion.error = nullptr;
  companion.state = Companion::State::ASKED;
  companion.changed.notify_all();
  const auto timeout = std::chrono::duration<double>(m.options.timeout_s);
  const bool done = companion.changed.wait_for(
      lock, stop, timeout, [&] { return companion.state == Companion::State::DONE; });
  if (!done) {
    companion.state = Companion::State::LEFT;
    m.num_stuck->fetch_add(1);
    lock.unlock();
    hand.thread.detach();
    if (stop.stop_requested())
      throw_as<DataError>("{}: the reading was broken off", printable(path));
    throw_as<DataError>("{}: no answer from the file system within {} s", printable(path),
                        m.options.timeout_s);
  }
  companion.state = Companion::State::IDLE;
  std::swap(companion.bytes, bytes);
  const std::exception_ptr error = std::exchange(companion.error, nullptr);
  lock.unlock();
  m.give_back(std::move(hand));
  if (error) std::rethrow_exception(error);
}

}  // namespace tr::data
