// SPDX-License-Identifier: Apache-2.0
#include "task/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string_view>
#include <utility>

#include "core/env.h"
#include "core/format.h"
#include "core/human.h"
#include "core/log.h"

namespace tr {

namespace {

constexpr auto kTickPeriod = std::chrono::milliseconds(200);
constexpr double kFileTickSeconds = 10;

/// A terminal that can erase a line.
bool is_terminal() {
  return ::isatty(STDERR_FILENO) == 1 && read_env("TERM").value_or("dumb") != "dumb";
}

/// What of a tick goes into one line: a second one could not be erased.
std::string_view fitted(std::string_view text) {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 2) return text;
  return text.substr(0, std::size_t(size.ws_col) - 1);
}

/// Standard error: ticks overwrite each other on a terminal, and come seldom in a file.
class DefaultSink {
 public:
  void operator()(const ProgressEvent& event) {
    static const bool terminal = is_terminal();
    if (event.kind != ProgressEvent::Kind::TICK) {
      std::fprintf(stderr, "%s%s\n", tick_shown_ ? "\r\033[K" : "", event.text.c_str());
      tick_shown_ = false;
    } else if (terminal) {
      const std::string_view text = fitted(event.text);
      std::fprintf(stderr, "\r\033[K%.*s", int(text.size()), text.data());
      std::fflush(stderr);
      tick_shown_ = true;
    } else if (since_line_.seconds() >= kFileTickSeconds) {
      std::fprintf(stderr, "%s\n", event.text.c_str());
      since_line_.restart();
    }
  }

 private:
  bool tick_shown_ = false;
  Stopwatch since_line_;
};

struct SinkHolder {
  std::recursive_mutex mutex;  // a sink may replace itself, or show something else
  std::shared_ptr<const ProgressSink> sink = std::make_shared<const ProgressSink>(DefaultSink());
};

SinkHolder& holder() {
  static SinkHolder instance;
  return instance;
}

std::string percent(double fraction) {
  return fraction < 0 ? "-" : fmt::format("{:.2f} %", 100 * fraction);
}

}  // namespace

ProgressSink set_progress_sink(ProgressSink sink) {
  auto next = std::make_shared<const ProgressSink>(std::move(sink));
  const std::lock_guard lock(holder().mutex);
  const auto former = std::exchange(holder().sink, std::move(next));
  return *former;
}

void emit_progress(ProgressEvent::Kind kind, std::string text) {
  const std::lock_guard lock(holder().mutex);
  const auto keep = holder().sink;  // one that replaces itself stays alive until it returns
  if (*keep) (*keep)({kind, std::move(text)});
}

bool progress_is_shown() {
  const std::lock_guard lock(holder().mutex);
  return bool(*holder().sink);
}

ProgressMeter::ProgressMeter(const Frame& frame) : frame_(frame), thread_([this] { loop(); }) {}

ProgressMeter::~ProgressMeter() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void ProgressMeter::loop() {
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, kTickPeriod, [this] { return stop_; })) {
    lock.unlock();
    try {
      if (live_.epoch.load() > 0 && progress_is_shown())
        emit_progress(ProgressEvent::Kind::TICK, line());
    } catch (...) {  // a user's sink: no caller could catch it in this thread
      log_warning("progress: the sink threw at a tick, this run shows no more of them");
      return;
    }
    lock.lock();
  }
}

void ProgressMeter::begin_epoch(int epoch, std::int64_t first_step) {
  const std::lock_guard lock(mutex_);
  live_.step = first_step;
  live_.images = 0;
  live_.loss_sum = 0;
  live_.samples = 0;
  live_.top1 = 0;
  live_.validating = false;
  live_.epoch = epoch;
  epoch_start_ = Clock::now();
  epoch_first_step_ = first_step;
}

void ProgressMeter::begin_validation() { live_.validating = true; }

void ProgressMeter::add_step(std::int64_t step, const StepOutcome& outcome,
                             const Totals& epoch_totals) {
  live_.step.store(step, std::memory_order_relaxed);
  live_.images.fetch_add(outcome.totals.samples, std::memory_order_relaxed);
  live_.loss_sum.store(epoch_totals.loss_sum, std::memory_order_relaxed);
  live_.samples.store(epoch_totals.samples, std::memory_order_relaxed);
  live_.top1.store(epoch_totals.top1, std::memory_order_relaxed);
  live_.lr.store(outcome.lr, std::memory_order_relaxed);
}

std::string ProgressMeter::line() const {
  const std::lock_guard lock(mutex_);
  const auto now = Clock::now();
  const auto seconds_since = [&](Clock::time_point t) {
    return std::chrono::duration<double>(now - t).count();
  };
  const std::int64_t step = live_.step, samples = live_.samples;
  const double loss = samples > 0 ? live_.loss_sum.load() / double(samples) : 0;
  const std::int64_t steps_here = step - epoch_first_step_;
  const std::int64_t steps_done = done_steps_ + steps_here;
  const std::int64_t steps_left =
      frame_.steps_per_epoch * (frame_.total_epochs - live_.epoch + 1) - step;
  const double eta = steps_done > 0
                         ? seconds_since(run_start_) / double(steps_done) * double(steps_left)
                         : std::nan("");
  const double rate = double(live_.images) / std::max(1e-9, seconds_since(epoch_start_));
  return fmt::format("epoch {}/{}  {} {}/{}  loss {:.4f}  lr {:.2g}  {} images/s  peak {}  ETA {}",
                     live_.epoch.load(), frame_.total_epochs,
                     live_.validating ? "validating, step" : "step", step, frame_.steps_per_epoch,
                     loss, live_.lr.load(), format_count(rate), format_bytes(frame_.peak_bytes),
                     format_clock(eta));
}

std::string ProgressMeter::head() const {
  std::string text = fmt::format("{:>7}", "epoch");
  const auto add = [&](Metric metric, const char* name) {
    if (has(frame_.columns, metric)) text += fmt::format("  {:>10}", name);
  };
  add(Metric::TRAIN_LOSS, "train loss");
  add(Metric::TRAIN_TOP1, "train top1");
  add(Metric::VAL_LOSS, "val loss");
  add(Metric::VAL_TOP1, "top-1");
  add(Metric::VAL_TOP5, "top-5");
  return text + fmt::format("  {:>10}  {:>10}  {:>9}", "lr", "images/s", "data wait") + "  feed";
}

std::string ProgressMeter::row(const EpochRecord& r) const {
  std::string text = fmt::format("{:>7}", fmt::format("{}/{}", r.epoch, frame_.total_epochs));
  const auto add = [&](Metric metric, const std::string& value) {
    if (has(frame_.columns, metric)) text += fmt::format("  {:>10}", value);
  };
  add(Metric::TRAIN_LOSS, fmt::format("{:.4f}", r.train_loss));
  add(Metric::TRAIN_TOP1, percent(r.train_top1));
  add(Metric::VAL_LOSS, r.validated ? fmt::format("{:.4f}", r.val_loss) : "-");
  add(Metric::VAL_TOP1, percent(r.top1));
  add(Metric::VAL_TOP5, percent(r.top5));
  text += fmt::format("  {:>10.3g}  {:>10}  {:>6.1f} ms", r.lr, format_count(r.images_per_s),
                      r.data_wait_ms);
  text += "  " + r.feed;
  if (r.bad_samples > 0) text += fmt::format("  ({} bad samples)", r.bad_samples);
  if (r.skipped_steps > 0) text += fmt::format("  ({} steps skipped)", r.skipped_steps);
  return text;
}

void ProgressMeter::end_epoch(const EpochRecord& record) {
  std::string text = row(record);
  {
    const std::lock_guard lock(mutex_);
    done_steps_ += live_.step - epoch_first_step_;
    epoch_first_step_ = live_.step;
    if (!head_shown_) text = head() + "\n" + text;
    head_shown_ = true;
  }
  emit_progress(ProgressEvent::Kind::EPOCH, std::move(text));
}

}  // namespace tr
