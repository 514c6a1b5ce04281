// SPDX-License-Identifier: Apache-2.0
#include "lr_plot.h"

#include <algorithm>
#include <cmath>

#include "core/format.h"

namespace tr::command {

namespace {

constexpr double kWidth = 800, kHeight = 400;                       // of the picture, in pixels
constexpr double kLeft = 80, kRight = 20, kTop = 40, kBottom = 50;  // margins

/// 1, 2 or 5 times a power of ten: at most about `ticks` of them make `range`.
double tick_step(double range, int ticks) {
  const double raw = range / ticks, power = std::pow(10, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= raw) return factor * power;
  }
  return 10 * power;
}

/// As XML has it: the title may hold the name of a file.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') result += "&amp;";
    if (c == '<') result += "&lt;";
    if (c != '&' && c != '<') result += c;
  }
  return result;
}

struct Frame {
  double epochs, highest;
  double x(double epoch) const { return kLeft + epoch / epochs * (kWidth - kLeft - kRight); }
  double y(double rate) const {
    return kHeight - kBottom - rate / highest * (kHeight - kTop - kBottom);
  }
};

std::string axes(const Frame& frame) {
  std::string text;
  const auto line = [&](double x1, double y1, double x2, double y2, const char* colour) {
    text += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1,
        x2, y2, colour);
  };
  const auto label = [&](double x, double y, const char* anchor, const std::string& what) {
    text += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y,
                        anchor, what);
  };
  const double right = kWidth - kRight, bottom = kHeight - kBottom;
  const double rate_step = tick_step(frame.highest, 6);
  for (int i = 0; i * rate_step <= frame.highest * (1 + 1e-9); ++i) {
    const double y = frame.y(i * rate_step);
    line(kLeft, y, right, y, i == 0 ? "black" : "#dddddd");
    label(kLeft - 6, y + 4, "end", fmt::format("{:.3g}", i * rate_step));
  }
  const double epoch_step = std::max(1.0, tick_step(frame.epochs, 10));
  for (int i = 0; i * epoch_step <= frame.epochs * (1 + 1e-9); ++i) {
    const double x = frame.x(i * epoch_step);
    line(x, bottom, x, bottom + 4, "black");
    label(x, bottom + 18, "middle", fmt::format("{:g}", i * epoch_step));
  }
  line(kLeft, kTop, kLeft, bottom, "black");
  label((kLeft + right) / 2, kHeight - 10, "middle", "epochs");
  return text;
}

}  // namespace

std::string lr_svg(std::span<const double> rates, std::int64_t steps_per_epoch,
                   const std::string& title) {
  const double highest = *std::max_element(rates.begin(), rates.end());
  const Frame frame{double(rates.size()) / double(steps_per_epoch), highest > 0 ? highest : 1};
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 "
      "{0:g} {1:g}\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%\" "
      "height=\"100%\" fill=\"white\"/>\n<text x=\"{2:g}\" y=\"20\" font-size=\"14\">{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  text += axes(frame) + "<polyline fill=\"none\" stroke=\"#1f77b4\" stroke-width=\"1.5\" points=\"";
  // A step holds its rate until the next one. Steps of one rate are one line.
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const bool begins = i == 0 || rates[i] != rates[i - 1];
    const bool ends = i + 1 == rates.size() || rates[i] != rates[i + 1];
    const auto point = [&](std::size_t step) {
      text += fmt::format("{:.2f},{:.2f} ", frame.x(double(step) / double(steps_per_epoch)),
                          frame.y(rates[i]));
    };
    if (begins) point(i);
    if (ends) point(i + 1);
  }
  return text + "\"/>\n</svg>\n";
}

std::string lr_csv(std::span<const double> rates, std::int64_t steps_per_epoch) {
  std::string text = "step,epoch,lr\n";
  for (std::size_t i = 0; i < rates.size(); ++i)
    text += fmt::format("{},{},{}\n", i, std::int64_t(i) / steps_per_epoch, rates[i]);
  return text;
}

}  // namespace tr::command
