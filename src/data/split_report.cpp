// SPDX-License-Identifier: Apache-2.0
// A look at every sample of a split: what `renaissance data check` and `data stats` tell.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>

#include "core/check.h"
#include "core/cpu_info.h"
#include "core/format.h"
#include "core/printable.h"
#include "core/sha256.h"
#include "core/thread_pool.h"
#include "data/check.h"
#include "data/image_decode.h"

namespace tr::data {
namespace {

constexpr std::int64_t kChunk = 32;        // samples that one task looks at
constexpr std::size_t kNamedGroups = 100;  // of duplicates
using Digest = std::array<std::uint8_t, 32>;

/// Integer sums, so that their order does not matter.
struct PixelSums {
  std::array<std::uint64_t, 4> sum{}, squares{};
  std::int64_t count = 0;

  void add(const std::uint8_t* row, int width, int channels) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < channels; ++c) {
        const std::uint64_t value = row[x * channels + c];
        sum[std::size_t(c)] += value;
        squares[std::size_t(c)] += value * value;
      }
    }
    count += width;
  }
  void add(const PixelSums& other) {
    for (std::size_t c = 0; c < sum.size(); ++c) {
      sum[c] += other.sum[c];
      squares[c] += other.squares[c];
    }
    count += other.count;
  }
};

struct Finding {
  std::int64_t id = 0;
  std::string text;
};

/// What one thread has seen.
struct Part {
  PixelSums pixels;
  std::map<std::pair<int, int>, std::int64_t> sizes;
  std::map<std::string, std::int64_t> formats;
  std::vector<std::int64_t> class_counts;
  std::vector<Finding> faults, warnings;
  EncodedPicture picture;
  std::unique_ptr<ImageDecoder> decoder;
  std::vector<std::vector<std::byte>> fields;
  std::vector<std::byte*> pointers;
};

/// The format, and what makes a picture slower to decode than others of it.
std::string kind_of(const ImageInfo& info, const DecodedImage& image) {
  const bool jpeg = info.format == "JPEG";
  const char* slow = "";
  if (info.progressive) {
    slow = jpeg ? ", several scans" : ", interlaced";
  } else if (jpeg && !image.own_huffman) {
    slow = ", codes read by libjpeg";
  }
  return std::string(info.format) + slow;
}

class Inspection {
 public:
  explicit Inspection(const Dataset& set) : set_(set), fields_(set.fields()) {
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      const TensorType& type = fields_[i].type;
      if (fields_[i].name == "image") image_ = int(i);
      const bool integer = type.dtype == DType::INT32 || type.dtype == DType::INT64;
      if (fields_[i].name == "label" && integer && type.shape.rank() == 0) label_ = int(i);
    }
    if (image_ >= 0 && image_type().dtype != DType::UINT8) {
      throw_as<Unsupported>("set {}: the field \"image\" is {}, only uint8 pixels are looked at",
                            set.name(), image_type());
    }
    TR_CHECK(image_ < 0 || image_type().shape.rank() == 3,
             "set {}: the field \"image\" has shape {}, expected [H, W, C]", set.name(),
             image_type().shape);
    channels_ = image_ < 0 ? 0 : int(image_type().shape[2]);
    TR_CHECK(channels_ <= 4, "set {}: images have {} channels, at most 4 are looked at", set.name(),
             channels_);
  }

  SplitReport run(int num_threads) {
    const std::int64_t n = set_.num_samples();
    digests_.resize(std::size_t(n));
    read_.assign(std::size_t(n), 0);
    ThreadPool pool(num_threads > 0 ? num_threads : default_num_threads());
    parts_.resize(std::size_t(pool.num_threads()));
    for (Part& part : parts_) prepare(part);
    pool.parallel_for((n + kChunk - 1) / kChunk, [&](std::int64_t chunk, int thread) {
      for (std::int64_t id = chunk * kChunk; id < std::min(n, (chunk + 1) * kChunk); ++id) {
        inspect(id, parts_[std::size_t(thread)]);
      }
    });
    return gather();
  }

 private:
  const TensorType& image_type() const { return fields_[std::size_t(image_)].type; }
  bool encoded() const { return image_ >= 0 && fields_[std::size_t(image_)].encoded; }

  void prepare(Part& part) const {
    for (const Field& field : fields_) {
      part.fields.emplace_back(std::size_t(bytes_of(field.type)));
      part.pointers.push_back(part.fields.back().data());
    }
    if (encoded()) {
      part.decoder = std::make_unique<ImageDecoder>(DecodeOptions{.color_channels = channels_});
    }
  }

  void inspect(std::int64_t id, Part& part) {
    try {
      if (encoded()) {
        set_.read_encoded(id, part.picture, part.pointers);
        note_digest(id, part.picture.bytes);
        look_at_picture(id, part);
      } else {
        set_.read(id, part.pointers);
        look_at_pixels(id, part);
      }
      look_at_label(id, part);
    } catch (const DataError& error) {
      part.faults.push_back({id, printable(error.what())});
    }
  }

  void note_digest(std::int64_t id, std::span<const std::byte> bytes) {
    Sha256 hash;
    hash.update(bytes);
    digests_[std::size_t(id)] = hash.digest();
    read_[std::size_t(id)] = 1;
  }

  void look_at_picture(std::int64_t id, Part& part) const {
    const std::string who = set_.sample_name(id);
    const ImageInfo info = part.decoder->open({part.picture.bytes, who});
    const DecodedImage image = part.decoder->decode();
    const Pixels& p = image.pixels;
    for (int y = 0; y < p.height; ++y) {
      part.pixels.add(p.data + std::size_t(y) * p.row_stride, p.width, p.channels);
    }
    ++part.sizes[{p.height, p.width}];
    ++part.formats[kind_of(info, image)];
    if (image.warnings > 0) {
      part.warnings.push_back({id, fmt::format("{}: {}", who, image.first_warning)});
    }
  }

  void look_at_pixels(std::int64_t id, Part& part) {
    if (image_ < 0) return;
    const std::vector<std::byte>& bytes = part.fields[std::size_t(image_)];
    note_digest(id, bytes);
    const Shape& shape = image_type().shape;
    part.pixels.add(reinterpret_cast<const std::uint8_t*>(bytes.data()), int(shape[0] * shape[1]),
                    channels_);
    ++part.sizes[{int(shape[0]), int(shape[1])}];
  }

  void look_at_label(std::int64_t id, Part& part) const {
    if (label_ < 0) return;
    const std::byte* bytes = part.pointers[std::size_t(label_)];
    std::int64_t label = 0;
    if (fields_[std::size_t(label_)].type.dtype == DType::INT64) {
      std::memcpy(&label, bytes, sizeof label);
    } else {
      std::int32_t narrow = 0;
      std::memcpy(&narrow, bytes, sizeof narrow);
      label = narrow;
    }
    constexpr std::int64_t kMaxClasses = std::int64_t(1) << 24;
    const std::int64_t end = set_.num_classes() > 0 ? set_.num_classes() : kMaxClasses;
    if (label < 0 || label >= end) {
      throw_as<DataError>("{}: label {} is outside 0..{}", set_.sample_name(id), label, end - 1);
    }
    if (label >= std::int64_t(part.class_counts.size())) {
      part.class_counts.resize(std::size_t(label) + 1);
    }
    ++part.class_counts[std::size_t(label)];
  }

  SplitReport gather() const {
    SplitReport report;
    report.num_samples = set_.num_samples();
    if (label_ >= 0) report.class_counts.resize(std::size_t(set_.num_classes()));
    PixelSums pixels;
    std::vector<Finding> faults, warnings;
    for (const Part& part : parts_) {
      pixels.add(part.pixels);
      for (const auto& [size, count] : part.sizes) report.sizes[size] += count;
      for (const auto& [format, count] : part.formats) report.formats[format] += count;
      report.class_counts.resize(std::max(report.class_counts.size(), part.class_counts.size()));
      for (std::size_t c = 0; c < part.class_counts.size(); ++c) {
        report.class_counts[c] += part.class_counts[c];
      }
      faults.insert(faults.end(), part.faults.begin(), part.faults.end());
      warnings.insert(warnings.end(), part.warnings.begin(), part.warnings.end());
    }
    report.num_pixels = pixels.count;
    for (int c = 0; c < channels_ && pixels.count > 0; ++c) {
      const double n = double(pixels.count), mean = double(pixels.sum[std::size_t(c)]) / n;
      const double variance = double(pixels.squares[std::size_t(c)]) / n - mean * mean;
      report.mean.push_back(mean / 255);
      report.std.push_back(std::sqrt(std::max(0.0, variance)) / 255);
    }
    report.faults = sorted_texts(std::move(faults));
    report.warnings = sorted_texts(std::move(warnings));
    report.duplicates = duplicates();
    return report;
  }

  static std::vector<std::string> sorted_texts(std::vector<Finding> findings) {
    std::sort(findings.begin(), findings.end(),
              [](const Finding& a, const Finding& b) { return a.id < b.id; });
    std::vector<std::string> texts;
    for (Finding& finding : findings) texts.push_back(std::move(finding.text));
    return texts;
  }

  /// Groups of samples with the same bytes, the first ones named.
  std::vector<std::vector<std::string>> duplicates() const {
    std::vector<std::int64_t> order;
    for (std::int64_t id = 0; id < set_.num_samples(); ++id) {
      if (read_[std::size_t(id)] != 0) order.push_back(id);
    }
    const auto digest = [this](std::int64_t id) -> const Digest& {
      return digests_[std::size_t(id)];
    };
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return digest(a) != digest(b) ? digest(a) < digest(b) : a < b;
    });
    std::vector<std::vector<std::int64_t>> groups;
    for (std::size_t i = 0; i < order.size();) {
      std::size_t end = i + 1;
      while (end < order.size() && digest(order[end]) == digest(order[i])) ++end;
      if (end - i > 1)
        groups.emplace_back(order.begin() + std::ptrdiff_t(i), order.begin() + std::ptrdiff_t(end));
      i = end;
    }
    std::sort(groups.begin(), groups.end());
    std::vector<std::vector<std::string>> names;
    for (const std::vector<std::int64_t>& group : groups) {
      if (names.size() == kNamedGroups) break;
      names.emplace_back();
      for (const std::int64_t id : group) names.back().push_back(set_.sample_name(id));
    }
    return names;
  }

  const Dataset& set_;
  std::vector<Field> fields_;
  int image_ = -1, label_ = -1, channels_ = 0;
  std::vector<Part> parts_;
  std::vector<Digest> digests_;     // of each sample's image
  std::vector<std::uint8_t> read_;  // 1: its digest is known
};

}  // namespace

SplitReport report_split(const Dataset& set, int num_threads) {
  return Inspection(set).run(num_threads);
}

}  // namespace tr::data
