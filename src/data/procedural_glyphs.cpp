// SPDX-License-Identifier: Apache-2.0
#include "data/procedural_glyphs.h"

#include "core/check.h"

namespace tr::data {
namespace {

constexpr Point kZero[] = {{.50f, .10f}, {.30f, .22f}, {.22f, .50f}, {.30f, .78f}, {.50f, .90f},
                           {.70f, .78f}, {.78f, .50f}, {.70f, .22f}, {.50f, .10f}};
constexpr Point kOne[] = {{.52f, .10f}, {.50f, .90f}};
constexpr Point kOneFlag[] = {{.34f, .28f}, {.52f, .10f}};
constexpr Point kTwoBow[] = {{.25f, .28f}, {.35f, .12f}, {.60f, .10f}, {.74f, .27f},
                             {.65f, .48f}, {.42f, .68f}, {.24f, .88f}};
constexpr Point kTwoBase[] = {{.24f, .88f}, {.78f, .88f}};
constexpr Point kThreeTop[] = {
    {.26f, .18f}, {.48f, .08f}, {.70f, .20f}, {.66f, .40f}, {.45f, .48f}};
constexpr Point kThreeBottom[] = {
    {.45f, .48f}, {.70f, .56f}, {.75f, .75f}, {.52f, .92f}, {.25f, .82f}};
constexpr Point kFourCorner[] = {{.60f, .08f}, {.22f, .62f}, {.80f, .62f}};
constexpr Point kFourStem[] = {{.62f, .30f}, {.60f, .92f}};
constexpr Point kFourTop[] = {{.60f, .08f}, {.62f, .30f}};
constexpr Point kFiveTop[] = {{.74f, .10f}, {.32f, .10f}, {.28f, .46f}};
constexpr Point kFiveBow[] = {{.28f, .46f}, {.50f, .40f}, {.72f, .52f},
                              {.72f, .75f}, {.50f, .92f}, {.24f, .84f}};
constexpr Point kSix[] = {{.66f, .10f}, {.42f, .26f}, {.28f, .52f}, {.28f, .76f}, {.46f, .92f},
                          {.68f, .84f}, {.72f, .66f}, {.54f, .52f}, {.32f, .62f}};
constexpr Point kSeven[] = {{.22f, .12f}, {.78f, .12f}, {.42f, .92f}};
constexpr Point kSevenBar[] = {{.36f, .50f}, {.72f, .50f}};
constexpr Point kEightTop[] = {{.50f, .50f}, {.32f, .40f}, {.30f, .20f}, {.50f, .10f},
                               {.70f, .20f}, {.68f, .40f}, {.50f, .50f}};
constexpr Point kEightBottom[] = {{.50f, .50f}, {.28f, .60f}, {.26f, .80f}, {.50f, .92f},
                                  {.74f, .80f}, {.72f, .60f}, {.50f, .50f}};
constexpr Point kNine[] = {{.68f, .36f}, {.48f, .48f}, {.29f, .36f}, {.32f, .16f}, {.54f, .08f},
                           {.70f, .20f}, {.71f, .44f}, {.62f, .70f}, {.44f, .92f}};

const Stroke kStrokesOfZero[] = {{kZero, true, false}};
const Stroke kStrokesOfOne[] = {{kOne, false, false}, {kOneFlag, false, true}};
const Stroke kStrokesOfTwo[] = {{kTwoBow, true, false}, {kTwoBase, false, false}};
const Stroke kStrokesOfThree[] = {{kThreeTop, true, false}, {kThreeBottom, true, false}};
const Stroke kStrokesOfFour[] = {
    {kFourCorner, false, false}, {kFourStem, false, false}, {kFourTop, false, true}};
const Stroke kStrokesOfFive[] = {{kFiveTop, false, false}, {kFiveBow, true, false}};
const Stroke kStrokesOfSix[] = {{kSix, true, false}};
const Stroke kStrokesOfSeven[] = {{kSeven, false, false}, {kSevenBar, false, true}};
const Stroke kStrokesOfEight[] = {{kEightTop, true, false}, {kEightBottom, true, false}};
const Stroke kStrokesOfNine[] = {{kNine, true, false}};

}  // namespace

std::span<const Stroke> glyph(int digit) {
  static const std::span<const Stroke> kGlyphs[] = {
      kStrokesOfZero, kStrokesOfOne, kStrokesOfTwo,   kStrokesOfThree, kStrokesOfFour,
      kStrokesOfFive, kStrokesOfSix, kStrokesOfSeven, kStrokesOfEight, kStrokesOfNine};
  TR_ASSERT(digit >= 0 && digit <= 9);
  return kGlyphs[digit];
}

}  // namespace tr::data
