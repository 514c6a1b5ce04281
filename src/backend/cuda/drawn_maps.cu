// SPDX-License-Identifier: Apache-2.0
// Functions of an element and a draw (backend/drawn_functors.h) and their gradients.
#include "backend/cuda/map.cuh"
#include "backend/cuda/step_row.cuh"
#include "backend/drawn_functors.h"

namespace tr::cuda {
namespace {

/// The draws of a sample's elements; element e has that of e % count.
struct Draws {
  const std::int64_t* counters;
  StepTable<const std::int64_t> step_ints;
  std::uint64_t draw_id;
  std::int64_t elements, count;

  __device__ std::uint32_t word(std::int64_t i) const {
    const std::int64_t* row = step_ints.row(counters);
    const std::int64_t sample = i / elements, draw = (i - sample * elements) % count;
    const DrawAddress address =
        dropout_address(std::uint64_t(row[kIntSeed]), std::uint64_t(counters[kCounterStep]),
                        draw_id, std::uint64_t(row[kIntSampleOffset] + sample));
    return address.block(std::uint32_t(draw / 4)).v[draw % 4];
  }
};

/// counters and step_ints are inputs `counters` and the next.
Draws draws_of(const KernelArgs& args, int counters) {
  const Shape& shape = args.out_type(0).shape;
  const std::int64_t elements = shape[0] == 0 ? 1 : shape.num_elements() / shape[0];
  return {args.in<std::int64_t>(counters),
          {args.in<std::int64_t>(counters + 1), args.in_type(counters + 1).shape},
          std::uint64_t(args.attrs().i64("draw_id")),
          elements,
          dropout_draws(args.attrs().str("per"), elements, shape.back())};
}

template <typename T, typename Functor>
struct Forward {
  const T* x;
  T* y;
  Functor f;
  Draws draws;

  template <int N>
  __device__ void run(std::int64_t i) const {
    y[i] = from_float<T>(f(to_float(x[i]), draws.word(i)));
  }
};

template <typename T, typename Functor>
struct Backward {
  const T *dy, *x;
  T* dx;
  Functor f;
  Draws draws;

  template <int N>
  __device__ void run(std::int64_t i) const {
    dx[i] = from_float<T>(f.grad(to_float(x[i]), to_float(dy[i]), draws.word(i)));
  }
};

template <typename Functor>
void launch_forward(const KernelArgs& args) {
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_map<1>(args, args.out_type(0).shape.num_elements(), true,
                  Forward<T, Functor>{args.in<T>(0), args.out<T>(0), Functor::of(args.attrs()),
                                      draws_of(args, 1)});
  });
}

template <typename Functor>
void launch_backward(const KernelArgs& args) {
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* dy = args.in<T>(0);
    const T* x = Functor::kReadsX ? args.in<T>(1) : dy;
    launch_map<1>(args, args.out_type(0).shape.num_elements(), true,
                  Backward<T, Functor>{dy, x, args.out<T>(0), Functor::of(args.attrs()),
                                       draws_of(args, Functor::kReadsX ? 2 : 1)});
  });
}

template <std::size_t kFloats>
std::string refuse(const KernelQuery& query) {
  if (query.in.size() < kFloats + 2)
    return "counters and step_ints are missing: draws have no address";
  return refuse_unless_floating({query.attrs, query.in.first(kFloats), query.out});
}

template <typename T>
struct MeanSlope {
  const T* x;
  T* y;
  float slope;

  template <int N>
  __device__ void run(std::int64_t i) const {
    const float v = to_float(x[i]);
    y[i] = from_float<T>(v > 0.0f ? v : slope * v);
  }
};

void launch_rrelu_eval(const KernelArgs& args) {
  const auto slope = float((args.attrs().f64("lower") + args.attrs().f64("upper")) / 2);
  dispatch_float(args.in_type(0).dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    launch_map<1>(args, args.out_type(0).shape.num_elements(), true,
                  MeanSlope<T>{args.in<T>(0), args.out<T>(0), slope});
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
}  // namespace tr::cuda
