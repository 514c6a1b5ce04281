// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace tr::test {

/// One call of an op's shape rule: what it gives, or the words of its refusal.
struct ShapeCase {
  std::string name;  // of the test
  std::string op;
  Attrs attrs;
  std::vector<TensorType> in;
  std::vector<TensorType> out;     // of a good case
  std::vector<std::string> words;  // of a bad one: all stand in the message
};

inline void PrintTo(const ShapeCase& c, std::ostream* out) { *out << c.op << " " << c.name; }

/// "fp16 [2, 3]" in short.
inline TensorType f32(Shape shape) { return {shape, DType::FP32}; }
inline TensorType f16(Shape shape) { return {shape, DType::FP16}; }
inline TensorType i32(Shape shape) { return {shape, DType::INT32}; }
inline TensorType i64(Shape shape) { return {shape, DType::INT64}; }
inline TensorType boolean(Shape shape) { return {shape, DType::BOOL}; }
inline TensorType u8(Shape shape) { return {shape, DType::UINT8}; }

std::vector<ShapeCase> map_cases();      // elementwise, arithmetic, views, joining
std::vector<ShapeCase> product_cases();  // fc, conv, pooling, batch norm
std::vector<ShapeCase> loss_cases();
std::vector<ShapeCase> step_cases();        // optimizers and the step's tail
std::vector<ShapeCase> fused_step_cases();  // what lowering makes of them
std::vector<ShapeCase> fused_norm_cases();
std::vector<ShapeCase> tensor_cases();  // arithmetic, comparisons, reductions
std::vector<ShapeCase> all_cases();

}  // namespace tr::test
