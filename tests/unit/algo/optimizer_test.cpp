// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/optimizer.h"

#include <gtest/gtest.h>

#include "algo/optimizer_spec.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::test {
namespace {

TEST(OptimizerBuilder, DefaultsArePyTorchs) {
  const Optimizer sgd = SGD();
  EXPECT_EQ(sgd.kind, Optimizer::Kind::SGD);
  EXPECT_EQ(sgd.momentum, 0);
  EXPECT_EQ(sgd.weight_decay, 0);
  EXPECT_FALSE(sgd.nesterov || sgd.decoupled_weight_decay);
  for (const Optimizer& adam : {Optimizer(Adam()), Optimizer(AdamW())}) {
    EXPECT_EQ(adam.beta1, 0.9);
    EXPECT_EQ(adam.beta2, 0.999);
    EXPECT_EQ(adam.eps, 1e-8);
    EXPECT_EQ(adam.weight_decay, 0);
  }
}

TEST(OptimizerBuilder, CallsMayStandInAnyOrder) {
  const Optimizer o = SGD().nesterov(true).weight_decay(1e-4f).momentum(0.9f);
  EXPECT_TRUE(o.nesterov);
  EXPECT_FLOAT_EQ(float(o.momentum), 0.9f);
}

TEST(OptimizerBuilder, RefusesInWords) {
  EXPECT_TRUE(throws<InvalidArgument>([] { SGD().momentum(1); },
                                      "sgd: momentum is 1, expected 0 <= momentum < 1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { SGD().momentum(-0.1); }, "momentum is -0.1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { SGD().weight_decay(-1); },
                                      "sgd: weight_decay is -1, expected at least 0"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] {
        Optimizer o = SGD().nesterov();
        (void)o;
      },
      "nesterov is on and momentum 0, expected a momentum above 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Adam().beta1(1); },
                                      "adam: beta1 is 1, expected 0 <= beta1 < 1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { AdamW().beta2(-1); }, "adamw: beta2 is -1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { AdamW().eps(0); },
                                      "adamw: eps is 0, expected a positive number"));
  EXPECT_TRUE(throws<InvalidArgument>([] { optimizer_kind_from_name("adamv"); }, "adamw"));
}

TEST(OptimizerSpec, NamesOpAttributesAndState) {
  const OptimizerSpec plain = optimizer_spec(SGD());
  EXPECT_EQ(plain.op, "sgd");
  EXPECT_EQ(plain.num_moments, 0);
  const OptimizerSpec nesterov =
      optimizer_spec(SGD().momentum(0.9).nesterov().decoupled_weight_decay());
  EXPECT_EQ(nesterov.num_moments, 1);
  EXPECT_TRUE(nesterov.attrs.flag("nesterov") && nesterov.attrs.flag("decoupled"));
  const OptimizerSpec adam = optimizer_spec(Adam().beta1(0.8)), adamw = optimizer_spec(AdamW());
  EXPECT_EQ(adam.op, "adam");
  EXPECT_EQ(adam.attrs.f64("beta1"), 0.8);
  EXPECT_FALSE(adam.attrs.flag("decoupled"));
  EXPECT_TRUE(adamw.attrs.flag("decoupled"));
  EXPECT_EQ(adamw.num_moments, 2);
}

/// The attributes are exactly those that the op's definition knows, clipping apart.
TEST(OptimizerSpec, AttributesFitTheDefinitions) {
  for (const Optimizer& o : {Optimizer(SGD()), Optimizer(Adam()), Optimizer(AdamW())}) {
    const OptimizerSpec spec = optimizer_spec(o);
    const OpDef& def = OpRegistry::instance().get(spec.op);
    EXPECT_NO_THROW(complete_attrs(def, spec.attrs));
    EXPECT_EQ(spec.attrs.values().size() + 2, def.attrs.size());
  }
}

}  // namespace
}  // namespace tr::test
