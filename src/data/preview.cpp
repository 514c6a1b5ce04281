// SPDX-License-Identifier: Apache-2.0
#include "renaissance/data/preview.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/atomic_file.h"
#include "core/check.h"
#include "core/format.h"
#include "core/printable.h"
#include "data/image_decode.h"
#include "data/png_writer.h"
#include "data/transforms/chain.h"
#include "data/transforms/resampler.h"

namespace tr {
namespace {

using data::ImageRef;
using data::ImageShape;

constexpr int kGap = 4;              // pixels between cells
constexpr int kSmallestCell = 96;    // smaller results are enlarged by a whole factor
constexpr std::uint8_t kPaper = 32;  // what is between and around the cells
constexpr std::int64_t kMostPixels = 100'000'000;

/// Reads samples of any kind of set, one after the other.
class SampleReader {
 public:
  SampleReader(const Dataset& dataset, ExifPolicy exif) : dataset_(dataset) {
    for (const Field& field : dataset.fields()) {
      const bool image = field.name == "image";
      buffers_.emplace_back(std::size_t(bytes_of(field.type)) + data::kImageSlack);
      if (image) {
        image_ = int(buffers_.size()) - 1;
        type_ = field.type;
        encoded_ = field.encoded;
      }
    }
    for (auto& buffer : buffers_) pointers_.push_back(buffer.data());
    TR_CHECK(image_ >= 0 && type_.dtype == DType::UINT8,
             "preview: the set {} has no field \"image\" of type uint8", dataset.name());
    if (encoded_) {
      decoder_.emplace(data::DecodeOptions{.color_channels = int(type_.shape[2]), .exif = exif});
    }
  }

  const Shape& shape() const { return type_.shape; }

  /// Valid until the next call.
  ImageRef read(std::int64_t id) {
    if (!encoded_) {
      dataset_.read(id, pointers_);
      return {reinterpret_cast<const std::uint8_t*>(pointers_[std::size_t(image_)]),
              {int(type_.shape[0]), int(type_.shape[1]), int(type_.shape[2])}};
    }
    dataset_.read_encoded(id, picture_, pointers_);
    name_ = dataset_.sample_name(id);
    decoder_->open({picture_.bytes, name_});
    const data::Pixels pixels = decoder_->decode().pixels;
    return {pixels.data, {pixels.height, pixels.width, pixels.channels}, pixels.row_stride};
  }

 private:
  const Dataset& dataset_;
  std::vector<std::vector<std::byte>> buffers_;
  std::vector<std::byte*> pointers_;
  int image_ = -1;
  TensorType type_;
  bool encoded_ = false;
  EncodedPicture picture_;
  std::string name_;
  std::optional<data::ImageDecoder> decoder_;
};

/// RGB cells of one size on paper.
class Sheet {
 public:
  Sheet(int rows, int columns, ImageShape cell)
      : cell_(cell),
        zoom_(std::max(1, kSmallestCell / std::max(cell.height, cell.width))),
        shape_{rows * (zoom_ * cell.height + kGap) + kGap,
               columns * (zoom_ * cell.width + kGap) + kGap, 3} {
    const std::int64_t pixels = std::int64_t(shape_.height) * shape_.width;
    TR_CHECK(pixels <= kMostPixels,
             "preview: {} samples of {} pictures of {}x{} make {} pixels, at "
             "most {} are possible",
             rows, columns, cell.height, cell.width, pixels, kMostPixels);
    pixels_.assign(shape_.num_bytes(), kPaper);
  }

  /// Centred in its cell, enlarged. Pictures of other than three channels show the first one.
  void put(int row, int column, const ImageRef& image) {
    const int top = kGap + row * (zoom_ * cell_.height + kGap) +
                    zoom_ * (cell_.height - image.shape.height) / 2;
    const int left = kGap + column * (zoom_ * cell_.width + kGap) +
                     zoom_ * (cell_.width - image.shape.width) / 2;
    const bool colors = image.shape.channels == 3;
    for (int y = 0; y < zoom_ * image.shape.height; ++y) {
      std::uint8_t* out = pixels_.data() + std::size_t(top + y) * shape_.row_bytes() + 3 * left;
      for (int x = 0; x < zoom_ * image.shape.width; ++x, out += 3) {
        const std::uint8_t* pixel = image.row(y / zoom_) + x / zoom_ * image.shape.channels;
        for (int c = 0; c < 3; ++c) out[c] = pixel[colors ? c : 0];
      }
    }
  }

  ImageRef image() const { return {pixels_.data(), shape_}; }

 private:
  ImageShape cell_;
  int zoom_;
  ImageShape shape_;
  std::vector<std::uint8_t> pixels_;
};

/// A picture scaled to fit a cell.
std::vector<std::uint8_t> fitted(const ImageRef& picture, ImageShape cell, ImageShape& out) {
  const double scale = std::min(double(cell.height) / picture.shape.height,
                                double(cell.width) / picture.shape.width);
  const auto side = [&](int from, int most) {
    return std::clamp(int(scale * from + 0.5), 1, most);
  };
  out = {side(picture.shape.height, cell.height), side(picture.shape.width, cell.width),
         picture.shape.channels};
  std::vector<std::uint8_t> pixels(out.num_bytes() + data::kImageSlack);
  std::vector<std::byte> scratch(data::resample_scratch_bytes(picture.shape, out, {}));
  data::resample(data::DecodedCrop(picture), out, {}, pixels.data(), scratch.data());
  return pixels;
}

/// Makes one cell after the other.
class Previewer {
 public:
  Previewer(const TransformChain& chain, const Shape& input, const PreviewOptions& options)
      : chain_(chain, input, DType::FP32),
        norms_(data::channel_norms(chain.normalization, int(input[2]))),
        options_(options) {
    const Shape out = chain_.output_shape();
    cell_ = {int(out[0]), int(out[1]), int(input[2])};
    mirrored_.resize(cell_.num_bytes() + data::kImageSlack);
  }

  const ImageShape& cell() const { return cell_; }

  /// What `epoch` sees of a picture; valid until the next call.
  ImageRef draw(const ImageRef& picture, std::int64_t id, int epoch) {
    const ImageShape& shape = picture.shape;
    const DrawAddress address = address_of(id, epoch);
    scratch_.resize(std::max(scratch_.size(), chain_.scratch_bytes(shape.height, shape.width)));
    const ImageRef pixels = chain_.final_pixels(
        chain_.run_pixels(picture, address, scratch_.data()), address, mirrored_.data());
    shown_.assign(pixels.pixels, pixels.pixels + cell_.num_bytes());
    const pixel::EraseRect rect = chain_.erased(address);
    for (int y = rect.top; y < rect.top + rect.height; ++y) {
      for (int x = rect.left; x < rect.left + rect.width; ++x) {
        for (int c = 0; c < cell_.channels; ++c) {
          const float mean = 255 * norms_[std::size_t(c)].mean + 0.5f;
          shown_[std::size_t((y * cell_.width + x) * cell_.channels + c)] =
              std::uint8_t(std::clamp(mean, 0.0f, 255.0f));
        }
      }
    }
    return {shown_.data(), cell_};
  }

  std::vector<std::string> describe(const ImageRef& picture, std::int64_t id, int epoch) const {
    return chain_.describe(address_of(id, epoch), picture.shape.height, picture.shape.width);
  }

 private:
  DrawAddress address_of(std::int64_t id, int epoch) const {
    return pixel::augment_address(options_.seed, options_.validation ? 1 : 0, epoch, id);
  }

  data::PixelChain chain_;
  std::vector<data::ChannelNorm> norms_;
  const PreviewOptions& options_;
  ImageShape cell_;
  std::vector<std::byte> scratch_;
  std::vector<std::uint8_t> mirrored_, shown_;
};

std::string json_path(const std::string& png_path) {
  const std::string ending = ".png";
  TR_CHECK(png_path.size() > ending.size() && png_path.ends_with(ending),
           "preview: the sheet is to be written to \"{}\", expected a name that ends in .png",
           png_path);
  return png_path.substr(0, png_path.size() - ending.size()) + ".json";
}

void check_options(const Dataset& dataset, const PreviewOptions& options) {
  TR_CHECK(options.num_samples >= 1 && options.num_samples <= 1000,
           "preview: num_samples is {}, must be in 1..1000", options.num_samples);
  TR_CHECK(options.num_draws >= 1 && options.num_draws <= 1000,
           "preview: num_draws is {}, must be in 1..1000", options.num_draws);
  TR_CHECK(options.first_sample >= 0 && options.first_sample < dataset.num_samples(),
           "preview: first_sample is {}, the set {} has {} samples", options.first_sample,
           dataset.name(), dataset.num_samples());
}

/// A sample's row of the sheet; returns what the JSON says of it but for its name.
nlohmann::json put_row(int row, const ImageRef& picture, Previewer& previewer, Sheet& sheet,
                       const PreviewOptions& options) {
  const std::int64_t id = options.first_sample + row;
  ImageShape shape;
  const std::vector<std::uint8_t> small = fitted(picture, previewer.cell(), shape);
  sheet.put(row, 0, {small.data(), shape});
  auto draws = nlohmann::json::array();
  for (int epoch = 0; epoch < options.num_draws; ++epoch) {
    sheet.put(row, 1 + epoch, previewer.draw(picture, id, epoch));
    draws.push_back(previewer.describe(picture, id, epoch));
  }
  return {{"sample", id},
          {"height", picture.shape.height},
          {"width", picture.shape.width},
          {"draws", draws}};
}

}  // namespace

std::string write_preview(const Dataset& dataset, const TransformChain& chain,
                          const std::string& png_path, const PreviewOptions& options) {
  const std::string text_path = json_path(png_path);
  check_options(dataset, options);
  SampleReader reader(dataset, options.exif);
  Previewer previewer(chain, reader.shape(), options);
  const auto rows = int(
      std::min<std::int64_t>(options.num_samples, dataset.num_samples() - options.first_sample));
  Sheet sheet(rows, 1 + options.num_draws, previewer.cell());
  nlohmann::json json = {{"chain", chain.str()},
                         {"seed", options.seed},
                         {"split", options.validation ? "val" : "train"},
                         {"rows", nlohmann::json::array()}};
  for (int row = 0; row < rows; ++row) {
    const std::int64_t id = options.first_sample + row;
    try {
      json["rows"].push_back(put_row(row, reader.read(id), previewer, sheet, options));
    } catch (const DataError& error) {
      const std::string name = dataset.sample_name(id), what = error.what();
      if (what.find(name) != std::string::npos) throw;
      throw_as<DataError>("{}: {}", printable(name), what);
    }
    json["rows"].back()["name"] = printable(dataset.sample_name(id));
  }
  const std::string text = json.dump(1) + "\n";
  data::write_png(png_path, sheet.image());
  write_file_atomically(text_path, std::string_view(text));
  return text;
}

}  // namespace tr
