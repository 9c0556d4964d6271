// Several views of one picture: each is what a pipeline of its own would make with its draws.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "core/order/keys.h"
#include "tests/config_error.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/sources/tar_bytes.h"

namespace batchflow::test::views_test {
namespace {

using prepare::Prepared;

// The steps of each kind of view that change pictures, and those after them.
constexpr std::string_view kGlobal =
    "{step: random_resized_crop, size: 20, scale: [0.4, 1]}, {step: horizontal_flip}, {step: "
    "colour_jitter, brightness: 0.4, hue: 0.1}, {step: gaussian_blur, kernel_size: 3}";
constexpr std::string_view kGlobalEnd =
    ", {step: normalise, mean: [0.5, 0.5, 0.5], std: [0.2, 0.2, 0.2]}, {step: layout, order: nchw}";
constexpr std::string_view kLocal =
    "{step: random_resized_crop, size: [8, 9], scale: [0.05, 0.4]}, {step: random_apply, "
    "probability: 0.5, steps: [{step: invert, probability: 1}]}";

config::ConfigNode views(std::string_view steps) {
  return input::parse_yaml(
      fmt::format("name: test\nsteps: [{}]\nviews:\n  - {{field: global, count: 2, steps: "
                  "[{}{}]}}\n  - {{field: local, count: 3, steps: [{}]}}\n",
                  steps, kGlobal, kGlobalEnd, kLocal),
      "test.yaml");
}
std::unique_ptr<prepare::Pipeline> plain(std::string_view steps) {
  return test::compile(
      input::parse_yaml(fmt::format("name: test\nsteps: [{}]", steps), "test.yaml"),
      test::files_dataset());
}

std::string refusal(std::string_view text, const sources::SampleIndex& dataset) {
  return config_error([&] { test::compile(input::parse_yaml(text, "test.yaml"), dataset); },
                      "it was taken");
}

Encoded jpeg() {
  return encode_jpeg(90, 70, {.h = 2, .v = 2});
}

TEST_CASE("views have fields of their own, one array for each") {
  const auto compiled = test::compile(views("{step: decode}"), test::files_dataset());
  using batch::ElementType;
  CHECK(compiled->spec() == batch::BatchSpec{{{"global", ElementType::f32, {2, 3, 20, 20}, false},
                                              {"local", ElementType::u8, {3, 8, 9, 3}, false},
                                              {"label", ElementType::i64, {}, false}}});
  CHECK(compiled->info().has_random);
  CHECK(compiled->info().decodes());
}

// A view draws by the key hash(hash(key, steps before the views), index of the view). So does a
// step inside of another, which stands at that index in a pipeline of one picture: there it is made
// again.
TEST_CASE("each view is what its steps alone make of the picture, by the view's key") {
  struct Case {
    std::string_view steps;
    std::uint32_t count;
    std::string_view size;  // that these make of 90 x 70 pixels
  };
  constexpr Case cases[] = {
      {"{step: decode}", 1, "[70, 90]"},
      {"{step: decode}, {step: resize, size: 64}", 2, "[64, 82]"},
      {"{step: decode}, {step: greyscale}", 2, "[70, 90]"},
      {"{step: decode}, {step: resize, size: 80}, {step: random_rotation, degrees: 30}", 3,
       "[80, 102]"},
      {"{step: decode}, {step: random_crop, size: 60}, {step: invert, probability: 1}", 3,
       "[60, 60]"}};
  std::size_t compared = 0;
  for (const Case& one : cases) {
    INFO(one.steps);
    const auto compiled = test::compile(views(one.steps), test::files_dataset());
    const auto before =
        plain(fmt::format("{}, {{step: centre_crop, size: {}}}", one.steps, one.size));
    for (const auto& preparer : test::all_preparers()) {
      for (const std::uint64_t key : {1, 2, 3}) {
        const Encoded picture = jpeg();
        Slot slot(*compiled), base(*before);
        REQUIRE(test::prepare(*preparer, *compiled, {.bytes = picture, .draw_key = key}, slot) ==
                Prepared::done);
        // What all views begin with, as a PNG.
        REQUIRE(test::prepare(*preparer, *before, {.bytes = picture, .draw_key = key}, base) ==
                Prepared::done);
        const auto& shape = before->spec().fields[0].shape;
        const auto pixels = base.field(0);
        const auto* from = reinterpret_cast<const std::uint8_t*>(pixels.data());
        const Encoded png = encode_png({from, from + pixels.size()}, static_cast<int>(shape[1]),
                                       static_cast<int>(shape[0]));
        for (std::uint32_t view = 1; view < 5; ++view) {
          const bool global = view < 2;
          std::string steps = "{step: decode}";
          for (std::uint32_t i = 1; i < view; ++i) steps += ", {step: pad, padding: 0}";
          steps += fmt::format(", {{step: random_apply, probability: 1, steps: [{}]}}{}",
                               global ? kGlobal : kLocal, global ? kGlobalEnd : "");
          const auto alone = plain(steps);
          Slot single(*alone);
          REQUIRE(test::prepare(*preparer, *alone,
                                {.bytes = png, .draw_key = order::step_seed(key, one.count)},
                                single) == Prepared::done);
          const auto expected = single.field(0);
          const auto all = slot.field(global ? 0 : 1);
          CHECK(std::equal(expected.begin(), expected.end(),
                           all.begin() + static_cast<std::ptrdiff_t>(expected.size() *
                                                                     (global ? view : view - 2))));
          ++compared;
        }
      }
    }
  }
  CHECK(compared >= 60);
}

TEST_CASE("views of the kept decoded form are those of the file") {
  for (const std::string_view steps :
       {"{step: decode}", "{step: decode}, {step: resize, size: 64}",
        "{step: decode}, {step: resize, size: 64}, {step: vertical_flip}"}) {
    const auto compiled = test::compile(views(steps), test::files_dataset());
    const auto preparer = prepare::make_preparer();
    const Encoded picture = jpeg();
    for (const std::uint64_t key : {1, 2, 3}) {
      Slot unkept(*compiled), keeping(*compiled), from_kept(*compiled);
      std::vector<std::byte> kept;
      REQUIRE(test::prepare(*preparer, *compiled, {.bytes = picture, .draw_key = key}, unkept) ==
              Prepared::done);
      REQUIRE(test::prepare(*preparer, *compiled, {.bytes = picture, .draw_key = key}, keeping,
                            &kept) == Prepared::done);
      REQUIRE(test::prepare(*preparer, *compiled, {.bytes = kept, .decoded = true, .draw_key = key},
                            from_kept) == Prepared::done);
      CHECK(unkept.memory() == keeping.memory());
      CHECK(unkept.memory() == from_kept.memory());
    }
  }
}

TEST_CASE("views stand beside other fields of a record, also when it is kept decoded") {
  const Encoded picture = jpeg();
  const std::string tar =
      tar_member("s.txt", "a text") +
      tar_member("s.jpg", {reinterpret_cast<const char*>(picture.data()), picture.size()});
  const std::span<const std::byte> record = std::as_bytes(std::span(tar));
  const FakeDataset tars(sources::RecordKind::tar, {}, {100'000}, false);
  const auto compiled = test::compile(
      input::parse_yaml(
          fmt::format("name: test\nfields: [{{field: words, kind: bytes, from: txt, most: 9}}, "
                      "{{field: image, kind: picture, from: jpg}}]\nsteps: [{{step: decode}}]\n"
                      "views: [{{field: global, count: 2, steps: [{}]}}]\n",
                      kGlobal),
          "test.yaml"),
      tars);
  const auto alone = test::compile(
      input::parse_yaml(fmt::format("name: test\nsteps: [{{step: decode}}]\nviews: [{{field: "
                                    "global, count: 2, steps: [{}]}}]\n",
                                    kGlobal),
                        "test.yaml"),
      test::files_dataset());
  using batch::ElementType;
  CHECK(compiled->spec() == batch::BatchSpec{{{"global", ElementType::u8, {2, 20, 20, 3}, false},
                                              {"words", ElementType::u8, {9}, true}}});
  const auto preparer = prepare::make_preparer();
  Slot slot(*compiled), from_kept(*compiled), views_alone(*alone);
  std::vector<std::byte> kept;
  REQUIRE(test::prepare(*preparer, *compiled, {.bytes = record, .draw_key = 5}, slot, &kept) ==
          Prepared::done);
  REQUIRE(test::prepare(*preparer, *compiled, {.bytes = kept, .decoded = true, .draw_key = 5},
                        from_kept) == Prepared::done);
  REQUIRE(test::prepare(*preparer, *alone, {.bytes = picture, .draw_key = 5}, views_alone) ==
          Prepared::done);
  CHECK(slot.memory() == from_kept.memory());
  CHECK(slot.field(0) == views_alone.field(0));
}

TEST_CASE("views differ from each other and from visit to visit") {
  const auto compiled = test::compile(views("{step: decode}"), test::files_dataset());
  const auto preparer = prepare::make_preparer();
  const Encoded picture = jpeg();
  std::vector<std::vector<std::byte>> seen;
  for (const std::uint64_t key : {1, 2}) {
    Slot slot(*compiled);
    REQUIRE(test::prepare(*preparer, *compiled, {.bytes = picture, .draw_key = key}, slot) ==
            Prepared::done);
    const auto all = slot.field(0);
    const auto half = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
    seen.emplace_back(all.begin(), half);
    seen.emplace_back(half, all.end());
  }
  for (std::size_t i = 0; i < seen.size(); ++i)
    for (std::size_t k = 0; k < i; ++k) CHECK(seen[i] != seen[k]);
}

TEST_CASE("what views take of the scratch memory is what was asked for") {
  const auto budget = std::make_shared<memory::ScratchBudget>(
      memory::ScratchLimits{.each = 1 << 10, .shared = 64 << 20});
  const auto preparer = prepare::make_preparer(budget);
  const auto compiled = test::compile(views("{step: decode}, {step: random_rotation, degrees: 30}"),
                                      test::files_dataset());
  Slot slot(*compiled);
  const Encoded picture = jpeg();
  REQUIRE(test::prepare(*preparer, *compiled, {.bytes = picture, .draw_key = 1}, slot) ==
          Prepared::done);
  const auto small = prepare::make_preparer(std::make_shared<memory::ScratchBudget>(
      memory::ScratchLimits{.each = 1 << 10, .shared = 20 << 10}));
  CHECK(test::prepare(*small, *compiled, {.bytes = picture, .draw_key = 1}, slot) ==
        Prepared::corrupt);
  CHECK(small->problem().find("of which a sample may have") != std::string_view::npos);
}

TEST_CASE("what cannot be a view is refused") {
  const FakeDataset dataset = test::files_dataset();
  const auto says = [&](std::string_view text, std::string_view expected) {
    const std::string said = refusal(text, dataset);
    CHECK_MESSAGE(said.find(expected) != std::string::npos, said);
  };
  const std::string head = "name: t\nsteps: [{step: decode}]\n";
  const std::string crop = "{step: centre_crop, size: 8}";
  says(head + "views: []", "it is empty");
  says(head + "views: [{field: a, count: 2, steps: [{step: horizontal_flip}]}]",
       "pictures would have different sizes");
  says(head + "views: [{field: a, count: 0, steps: [" + crop + "]}]", "'views.0.count'");
  says(head + "views: [{field: a, count: 65, steps: [" + crop + "]}]",
       "65 views of a picture; write at most 64 in all");
  says(head + "views: [{field: a, count: 1, steps: [{step: decode}, " + crop + "]}]",
       "'decode' stands in a view; write it into the steps of the pipeline");
  says(head + "views: [{field: a, count: 1, steps: [" + crop + "]}, {field: a, count: 1, steps: [" +
           crop + "]}]",
       "two fields are called 'a'");
  says("name: t\nsteps: []\nviews: [{field: a, count: 1, steps: [" + crop + "]}]",
       "they are of a picture, and none is decoded");
  says(
      "name: t\nsteps: [{step: decode}, {step: layout, order: nchw}]\nviews: [{field: a, count: 1, "
      "steps: [" +
          crop + "]}]",
      "'layout' stands before the views; write it into the steps of each view");
  const FakeDataset tars(sources::RecordKind::tar, {}, {100'000}, false);
  CHECK(refusal(head + "views: [{field: a, count: 1, steps: [" + crop +
                    "]}]\nfields: [{field: p, kind: picture}, {field: m, kind: mask, from: m.png}]",
                tars)
            .find("go along with one picture, not with views") != std::string::npos);
}

}  // namespace
}  // namespace batchflow::test::views_test
