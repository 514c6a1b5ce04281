// SPDX-License-Identifier: Apache-2.0
#include "data/transforms/program.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/check.h"
#include "core/format.h"
#include "core/pixel/resized_crop.h"
#include "core/pixel/stages.h"
#include "data/transforms/chain.h"
#include "data/transforms/rules.h"

namespace tr::data {
namespace {

static_assert(kMaxSteps <= pixel::Program::kMaxSteps);
static_assert(kMaxChannels <= pixel::Program::kMaxChannels);

// One function a transform: kind, parameters and the size of its result; `step.in` is set.

void describe(const Pad& pad, pixel::Step& step) {
  step.kind = pixel::StepKind::PAD;
  step.pad = {pixel::PadRule(pad.mode), pad.padding, pad.fill};
  step.out = {step.in.height + 2 * pad.padding, step.in.width + 2 * pad.padding};
}

void describe(const RandomCrop& crop, pixel::Step& step) {
  step.kind = pixel::StepKind::CROP;
  step.crop = {
      {std::max(step.in.height, crop.size.height), std::max(step.in.width, crop.size.width)}};
  step.out = {crop.size.height, crop.size.width};
}

void describe(const CenterCrop& crop, pixel::Step& step) {
  describe(RandomCrop(crop.size), step);
  const auto first = [](std::int32_t surplus) {
    return surplus > 0 ? pixel::centred_offset(surplus) : 0;
  };
  step.crop.drawn = 0;
  step.crop.window = {first(step.in.height - crop.size.height),
                      first(step.in.width - crop.size.width)};
}

void describe(const RandomHorizontalFlip& flip, pixel::Step& step) {
  step.kind = pixel::StepKind::FLIP;
  step.flip = {flip.p, 0};
  step.out = step.in;
}

void describe(const RandomVerticalFlip& flip, pixel::Step& step) {
  step.kind = pixel::StepKind::FLIP;
  step.flip = {flip.p, 1};
  step.out = step.in;
}

void describe(const RandomRotation& rotation, pixel::Step& step) {
  step.kind = pixel::StepKind::ROTATE;
  step.rotate = {rotation.degrees, rotation.fill};
  step.out = step.in;
}

void describe(const RandomScale& scale, pixel::Step& step) {
  step.kind = pixel::StepKind::SCALE;
  step.scale = {scale.min, scale.max};
  step.out = step.in;
}

void note_bytes(pixel::Program& program, pixel::Extent extent, const TransformChain& chain) {
  const std::int64_t bytes = std::int64_t(extent.height) * extent.width * program.channels;
  if (bytes > std::numeric_limits<std::int32_t>::max()) {
    throw_as<Unsupported>(
        "{}: an image of {}x{}x{} on the way has {} bytes, programs take up to {}", chain.str(),
        extent.height, extent.width, program.channels, bytes,
        std::numeric_limits<std::int32_t>::max());
  }
  program.largest_bytes = std::max(program.largest_bytes, std::int32_t(bytes));
}

void add(const Transform& transform, std::uint32_t index, pixel::Program& program) {
  std::visit(
      [&](const auto& t) {
        using T = std::decay_t<decltype(t)>;
        pixel::Step& step = program.steps[program.num_steps];
        if constexpr (std::is_same_v<T, RandomErasing>) {
          program.erases = 1;
          program.erase_index = index;
          program.erase = {t.p, t.scale.low, t.scale.high, det::log(t.ratio.low),
                           det::log(t.ratio.high)};
        } else if constexpr (requires { describe(t, step); }) {
          step.index = index;
          step.in = program.out;
          describe(t, step);
          program.out = step.out;
          ++program.num_steps;
        } else {
          throw_as<Unsupported>("{}: this transform runs on the host only", to_string(transform));
        }
      },
      transform);
}

}  // namespace

pixel::Program program_of(const TransformChain& chain, const Shape& input, DType dtype) {
  const PixelChain prepared(chain, input, dtype);  // throws for all that does not fit
  if (prepared.takes_pictures() || prepared.output_shape()[2] != input[2]) {
    throw_as<Unsupported>("{}: pictures of any size and added channels run on the host only",
                          chain.str());
  }
  pixel::Program program;
  program.in = program.out = {std::int32_t(input[0]), std::int32_t(input[1])};
  program.channels = std::int32_t(input[2]);
  program.dtype = dtype;
  note_bytes(program, program.out, chain);
  for (std::size_t i = 0; i < chain.transforms.size(); ++i) {
    add(chain.transforms[i], std::uint32_t(i), program);
    note_bytes(program, program.out, chain);
  }
  const auto norms = channel_norms(chain.normalization, program.channels);
  for (std::size_t c = 0; c < norms.size(); ++c) {
    program.mean[c] = norms[c].mean;
    program.std[c] = norms[c].std;
  }
  return program;
}

ProgramRunner::ProgramRunner(const pixel::Program& program)
    : program_(program), drawn_(std::size_t(program.num_steps)) {
  for (int c = 0; c < program.channels; ++c) {
    for (int x = 0; x < 256; ++x) {
      table_.push_back(pixel::normalized_bits(program, c, std::uint8_t(x)));
    }
  }
  for (auto& buffer : buffers_) buffer.resize(std::size_t(program.largest_bytes));
}

template <typename T>
void ProgramRunner::run_stages(const std::uint8_t* src, T* dst, const DrawAddress& address) {
  for (int i = 0; i < program_.num_steps; ++i) {
    drawn_[std::size_t(i)] = pixel::draw_step(program_.steps[i], address);
  }
  const pixel::EraseRect rect = pixel::draw_erase(program_, address);
  const std::int32_t channels = program_.channels;
  pixel::ImageView image{src, program_.in, channels};
  int first = 0, turn = 0;
  do {
    const pixel::StageSteps steps = pixel::stage_at(program_, first);
    const bool last = steps.end == program_.num_steps;
    const pixel::Extent extent = pixel::stage_extent(program_, steps);
    std::uint8_t* pixels = buffers_[turn].data();
    pixel::with_stage(program_, drawn_.data(), steps, image, [&](const auto& stage) {
      std::size_t i = 0;
      for (std::int32_t y = 0; y < extent.height; ++y) {
        for (std::int32_t x = 0; x < extent.width; ++x) {
          for (std::int32_t c = 0; c < channels; ++c, ++i) {
            const std::int32_t value = stage(y, x, c);
            if (!last) {
              pixels[i] = std::uint8_t(value);
            } else {
              dst[i] =
                  pixel::is_erased(rect, y, x) ? T(0) : T(table_[std::size_t(256 * c + value)]);
            }
          }
        }
      }
    });
    image = {pixels, extent, channels};
    turn = 1 - turn;
    first = steps.end;
  } while (first < program_.num_steps);
}

void ProgramRunner::run(const std::uint8_t* src, void* dst, const DrawAddress& address) {
  if (program_.dtype == DType::FP32) {
    run_stages(src, static_cast<std::uint32_t*>(dst), address);
  } else {
    run_stages(src, static_cast<std::uint16_t*>(dst), address);
  }
}

}  // namespace tr::data
