// SPDX-License-Identifier: Apache-2.0
// Functions of an element and a draw (backend/drawn_functors.h) and their gradients.
#include "backend/drawn_functors.h"

#include <string>

#include "backend/cpu/dispatch.h"
#include "backend/cpu/partition.h"
#include "backend/cpu/step_row.h"

namespace tr::cpu {
namespace {

/// Calls f(element, its draw) for all elements of the first output; counters and step_ints are
/// inputs `counters` and the next.
template <typename F>
void for_drawn(const KernelArgs& args, int counters, F&& f) {
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t samples = shape[0];
  if (shape.num_elements() == 0) return;
  const std::int64_t elements = shape.num_elements() / samples;
  const auto draw_id = std::uint64_t(args.attrs().i64("draw_id"));
  const auto step = std::uint64_t(args.in<std::int64_t>(counters)[kCounterStep]);
  const std::int64_t* row = step_row<std::int64_t>(args, counters + 1, counters);
  const std::int64_t draws = dropout_draws(args.attrs().str("per"), elements, shape.back());
  for_chunks(args.pool(), samples, rows_per_task(elements),
             [&](std::int64_t begin, std::int64_t end) {
               for (std::int64_t n = begin; n < end; ++n) {
                 const auto sample = std::uint64_t(row[kIntSampleOffset] + n);
                 const DrawAddress address =
                     dropout_address(std::uint64_t(row[kIntSeed]), step, draw_id, sample);
                 Philox4 words{};
                 for (std::int64_t i = 0; i < elements; ++i) {
                   const std::int64_t draw = i % draws;
                   if (draw % 4 == 0) words = address.block(std::uint32_t(draw / 4));
                   f(n * elements + i, words.v[draw % 4]);
                 }
               }
             });
}

template <typename Functor>
void launch_forward(const KernelArgs& args) {
  const Functor f = Functor::of(args.attrs());
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    for_drawn(args, 1, [&](std::int64_t i, std::uint32_t word) {
      y[i] = from_float<T>(f(to_float(x[i]), word));
    });
  });
}

template <typename Functor>
void launch_backward(const KernelArgs& args) {
  const Functor f = Functor::of(args.attrs());
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = args.in<T>(0);
    const T* x = Functor::kReadsX ? args.in<T>(1) : dy;
    T* dx = args.out<T>(0);
    for_drawn(args, Functor::kReadsX ? 2 : 1, [&](std::int64_t i, std::uint32_t word) {
      dx[i] = from_float<T>(f.grad(to_float(x[i]), to_float(dy[i]), word));
    });
  });
}

template <std::size_t kFloats>
std::string refuse(const KernelQuery& query) {
  if (query.in.size() < kFloats + 2)
    return "counters and step_ints are missing: draws have no address";
  return refuse_unless_floating({query.attrs, query.in.first(kFloats), query.out});
}

void launch_rrelu_eval(const KernelArgs& args) {
  const auto slope = float((args.attrs().f64("lower") + args.attrs().f64("upper")) / 2);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = args.in<T>(0);
    T* y = args.out<T>(0);
    for_chunks(args.pool(), args.out_type(0).shape.num_elements(), kStreamChunk,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; ++i) {
                   const float v = to_float(x[i]);
                   y[i] = from_float<T>(v > 0.0f ? v : slope * v);
                 }
               });
  });
}

template <typename Functor>
struct Registration {
  const std::string name{Functor::kName};
  const KernelRegistration forward{simple_kernel(name, launch_forward<Functor>, refuse<1>)};
  const KernelRegistration backward{simple_kernel(name + "_backward", launch_backward<Functor>,
                                                  refuse<Functor::kReadsX ? 2 : 1>)};
};

const Registration<functors::RandomSlope> kRandomSlope;
const Registration<functors::AlphaDropout> kAlphaDropout;
const KernelRegistration kRreluEval{
    simple_kernel("rrelu_eval", launch_rrelu_eval, refuse_unless_floating)};

}  // namespace
}  // namespace tr::cpu
