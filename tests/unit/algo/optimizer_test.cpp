// SPDX-License-Identifier: Apache-2.0
#include "renaissance/algo/optimizer.h"

#include <gtest/gtest.h>

#include "algo/optimizer_spec.h"
#include "renaissance/algo/matrix_optimizers.h"
#include "renaissance/core/error.h"
#include "support/throws.h"

namespace tr::test {
namespace {

TEST(OptimizerBuilder, DefaultsArePyTorchs) {
  const Optimizer sgd = SGD();
  EXPECT_EQ(sgd.kind, Optimizer::Kind::SGD);
  EXPECT_EQ(sgd.momentum, 0);
  EXPECT_EQ(sgd.weight_decay, 0);
  EXPECT_FALSE(sgd.nesterov.value() || sgd.decoupled_weight_decay);
  for (const Optimizer& adam : {Optimizer(Adam()), Optimizer(AdamW())}) {
    EXPECT_EQ(adam.beta1, 0.9);
    EXPECT_EQ(adam.beta2, 0.999);
    EXPECT_EQ(adam.eps, 1e-8);
    EXPECT_EQ(adam.weight_decay, 0);
  }
}

TEST(OptimizerBuilder, DefaultsAreThoseOfTheirSources) {
  const Optimizer lion = Lion(), rmsprop = RMSprop(), adagrad = Adagrad(), lars = LARS(),
                  lamb = LAMB();
  EXPECT_EQ(lion.beta1, 0.9);
  EXPECT_EQ(lion.beta2, 0.99);
  EXPECT_EQ(rmsprop.alpha, 0.99);
  EXPECT_EQ(rmsprop.eps, 1e-8);
  EXPECT_EQ(rmsprop.momentum, 0);
  EXPECT_EQ(adagrad.eps, 1e-10);
  EXPECT_EQ(adagrad.lr_decay, 0);
  EXPECT_EQ(lars.trust_coefficient, 0.001);
  EXPECT_EQ(lars.momentum, 0);
  EXPECT_EQ(lamb.beta2, 0.999);
  EXPECT_EQ(lamb.eps, 1e-6);
}

TEST(OptimizerBuilder, CallsMayStandInAnyOrder) {
  const Optimizer o = SGD().nesterov(true).weight_decay(1e-4f).momentum(0.9f);
  EXPECT_TRUE(o.nesterov.value());
  EXPECT_FLOAT_EQ(float(o.momentum.value()), 0.9f);
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
  EXPECT_TRUE(throws<InvalidArgument>([] { Lion().beta2(1); }, "lion: beta2 is 1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { RMSprop().alpha(-1); }, "rmsprop: alpha is -1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Adagrad().lr_decay(-1); },
                                      "adagrad: lr_decay is -1, expected at least 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { LARS().trust_coefficient(0); },
                                      "lars: trust_coefficient is 0, expected a positive"));
  EXPECT_TRUE(throws<InvalidArgument>(
      [] { (void)Optimizer(LARS().momentum(0.9).nesterov().rate_in_momentum()); },
      "rate_in_momentum and nesterov are on, expected one of them"));
  EXPECT_TRUE(throws<InvalidArgument>([] { (void)Optimizer(LARS().rate_in_momentum()); },
                                      "rate_in_momentum is on and momentum 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { optimizer_kind_from_name("adamv"); }, "adamw"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Shampoo().block_size(0); },
                                      "shampoo: block_size is 0, expected at least 1"));
  EXPECT_TRUE(
      throws<InvalidArgument>([] { Shampoo().precondition_every(0); }, "precondition_every is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { Shampoo().preconditioner_beta(1.5); },
                                      "preconditioner_beta is 1.5, expected 0 to 1"));
  EXPECT_TRUE(throws<InvalidArgument>([] { SOAP().preconditioner_beta(1); },
                                      "soap: preconditioner_beta is 1, expected 0 <="));
  EXPECT_TRUE(throws<InvalidArgument>([] { SOAP().ridge(0); }, "soap: ridge is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { SOAP().max_preconditioner_dim(0); },
                                      "max_preconditioner_dim is 0"));
  EXPECT_TRUE(throws<InvalidArgument>([] { grafting_from_name("lamb"); }, "none, sgd or adam"));
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
  EXPECT_EQ(optimizer_spec(Lion()).num_moments, 1);
  EXPECT_EQ(optimizer_spec(RMSprop()).num_moments, 1);
  EXPECT_EQ(optimizer_spec(RMSprop().centered().momentum(0.9)).num_moments, 3);
  EXPECT_EQ(optimizer_spec(LARS()).num_moments, 0);
  EXPECT_EQ(optimizer_spec(LAMB()).num_moments, 2);
}

TEST(OptimizerSpec, AScheduleThatMovesTheMomentumHasOpsOfItsOwn) {
  const Scheduler cycle = OneCycleLR().cycle_momentum(), still = OneCycleLR();
  EXPECT_EQ(optimizer_spec(SGD(), still, 0).op, "sgd");
  const OptimizerSpec sgd = optimizer_spec(SGD().momentum(0.9).nesterov(), cycle, 2);
  EXPECT_EQ(sgd.op, "sgd_cycle");
  EXPECT_EQ(sgd.num_moments, 1);
  EXPECT_TRUE(sgd.attrs.flag("nesterov"));
  EXPECT_EQ(optimizer_spec(SGD(), cycle, 0).num_moments, 1) << "the cycle brings the momentum";
  const OptimizerSpec adamw = optimizer_spec(AdamW().eps(1e-6), cycle, 2);
  EXPECT_EQ(adamw.op, "adam_cycle");
  EXPECT_TRUE(adamw.attrs.flag("decoupled"));
  EXPECT_EQ(adamw.attrs.i64("group"), 2);
  EXPECT_EQ(adamw.attrs.f64("eps"), 1e-6);
  EXPECT_EQ(optimizer_spec(SGD(), still, 0, true).op, "sgd_cycle") << "groups bring it";
  EXPECT_EQ(optimizer_spec(Adam(), still, 0, true).op, "adam_cycle");
  EXPECT_TRUE(throws<InvalidArgument>([&] { optimizer_spec(SGD(), cycle, 0, true); },
                                      "cycle_momentum is on, and groups set a momentum"));
  for (const OptimizerSpec& spec : {sgd, adamw})
    EXPECT_NO_THROW(complete_attrs(OpRegistry::instance().get(spec.op), spec.attrs));
  EXPECT_TRUE(throws<InvalidArgument>([&] { optimizer_spec(Lion(), cycle, 0); },
                                      "goes with sgd, adam and adamw, not with lion"));
}

/// The attributes are exactly those that the op's definition knows, clipping apart.
TEST(OptimizerSpec, AttributesFitTheDefinitions) {
  const Optimizer all[] = {SGD(),  Adam(), AdamW(), Lion(),    RMSprop(), Adagrad(),
                           LARS(), LAMB(), Muon(),  Shampoo(), SOAP()};
  for (const Optimizer& o : all) {
    SCOPED_TRACE(name_of(o.kind));
    EXPECT_EQ(optimizer_kind_from_name(name_of(o.kind)), o.kind);
    const OptimizerSpec spec = optimizer_spec(o);
    const OpDef& def = OpRegistry::instance().get(spec.op);
    EXPECT_NO_THROW(complete_attrs(def, spec.attrs));
    // Muon: steps, eps and matrices are no settings either.
    // Nor are the matrices of shampoo and soap.
    const std::size_t others = o.kind == Optimizer::Kind::MUON ? 5 : moves_matrices(o.kind) ? 3 : 2;
    EXPECT_EQ(spec.attrs.values().size() + others, def.attrs.size());
  }
}

}  // namespace
}  // namespace tr::test
