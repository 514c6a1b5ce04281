// SPDX-License-Identifier: Apache-2.0
#include "core/check.h"
#include "core/format.h"
#include "ops/rules.h"
#include "renaissance/ops/shape.h"

namespace tr {

BluePrint channel_padding(std::int64_t multiple, std::source_location where) {
  return layer("channel_padding", {{"multiple", multiple}}, 1, where);
}

namespace {

using ops::Ids;
using ops::Types;

std::vector<TensorType> infer(const Attrs& attrs, Types in) {
  ops::check_floating("x", in[0]);
  ops::check_rank("x", in[0], 4, "[N, H, W, C]");
  const std::int64_t multiple = attrs.i64("multiple");
  TR_CHECK(multiple >= 1 && multiple <= (1 << 20), "multiple is {}, expected 1 to {}", multiple,
           1 << 20);
  const std::int64_t channels = in[0].shape.back();
  return {{in[0].shape.with_dim(3, (channels + multiple - 1) / multiple * multiple), in[0].dtype}};
}

std::vector<TensorId> gradient(GraphBuilder& builder, const Node& node, Ids dout) {
  return {builder.add("channel_padding_backward", {dout[0], node.inputs[0]})};
}

std::vector<TensorType> infer_backward(const Attrs&, Types in) {
  ops::check_rank("dy", in[0], 4, "[N, H, W, C]");
  const Shape& x = in[1].shape;
  TR_CHECK(
      x.rank() == 4 && x.back() <= in[0].shape.back() && in[0].shape.with_dim(3, x.back()) == x,
      "dy has shape {}, expected {} (that of x) with channels added", in[0].shape, x);
  return {{x, in[0].dtype}};
}

const OpRegistration kChannelPadding{
    {.name = "channel_padding",
     .inputs = {"x"},
     .outputs = {"y"},
     .attrs = {{"multiple", std::int64_t{8}, false, "channels become a multiple of it"}},
     .infer = infer,
     .gradient = gradient,
     .cost = ops::cost_per_element(0),
     .doc = "Appends zero channels. torch.nn.functional.pad over C"}};

const OpRegistration kChannelPaddingBackward{{.name = "channel_padding_backward",
                                              .inputs = {"dy", "x"},
                                              .outputs = {"dx"},
                                              .infer = infer_backward,
                                              .cost = ops::cost_per_element(0, 1),
                                              .type_only_from = 1,
                                              .doc = "The first channels of dy."}};

}  // namespace
}  // namespace tr
