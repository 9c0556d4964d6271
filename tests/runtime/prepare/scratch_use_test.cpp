// That a sample takes no more of the scratch memory than it has asked for, and gives it back.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "core/base/random.h"
#include "runtime/prepare/picture_worker.h"
#include "runtime/prepare/sample_scratch.h"
#include "tests/policies/random_seeds.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/prepare/pictures.h"

namespace batchflow::test::scratch_use_test {
namespace {

using test::compile;
using test::encode_jpeg;
using test::encode_png;
using test::Encoded;

// Each buffer has whole pages; a decoder's are five, and pictures and tables are seven.
constexpr Bytes kRounding = 12 * 4096;

struct Worker {
  std::shared_ptr<memory::ScratchBudget> budget;
  prepare::SampleScratch scratch;
  step::StepRunner plugins;
  prepare::PictureWorker pictures;
  explicit Worker(Bytes most)
      : budget(std::make_shared<memory::ScratchBudget>(memory::ScratchLimits{0, most})),
        scratch(budget),
        pictures(prepare::plain_kernels(), plugins, scratch) {}
  bool run(const prepare::PicturePlan& plan, const Encoded& picture, std::byte* out,
           const prepare::PictureWorker::Keep* keep = nullptr) {
    prepare::PictureWorker::Input input;
    input.bytes = picture;
    input.draw_key = 7;
    input.keep = keep;
    return pictures.run(plan, input, out);
  }
};

std::string random_steps(Random& random) {
  std::string steps = "- {step: decode}\n";
  const auto side = [&] { return 1 + random.below(400); };
  for (std::uint64_t left = random.below(6); left > 0; --left) {
    switch (random.below(14)) {
      case 0:
        steps += fmt::format("- {{step: resize, size: {}}}\n", side());
        break;
      case 1:
        steps += fmt::format("- {{step: resize, size: [{}, {}]}}\n", side(), side());
        break;
      case 2:
        steps += fmt::format("- {{step: centre_crop, size: [{}, {}]}}\n", side(), side());
        break;
      case 3:
        steps += fmt::format("- {{step: random_resized_crop, size: {}}}\n", side());
        break;
      case 4:
        steps += "- {step: horizontal_flip, probability: 1}\n";
        break;
      case 5:
        steps += fmt::format("- {{step: resize, size: {}, interpolation: bicubic}}\n", side());
        break;
      case 6:
        steps += fmt::format("- {{step: resize, size: [{}, {}], interpolation: nearest}}\n", side(),
                             side());
        break;
      case 7:
        steps += fmt::format("- {{step: pad, padding: {}, padding_mode: symmetric}}\n", side());
        break;
      case 8:
        steps += fmt::format("- {{step: random_crop, size: {}, pad_if_needed: true}}\n", side());
        break;
      case 9:
        steps += "- {step: gaussian_blur, kernel_size: [7, 63]}\n";
        break;
      case 10:
        steps += "- {step: random_affine, degrees: 30, interpolation: bilinear}\n";
        break;
      case 11:
        steps += "- {step: rand_augment, operations: 4}\n- {step: vertical_flip}\n";
        break;
      case 12:
        steps +=
            "- {step: random_apply, steps: [{step: greyscale}, {step: sharpness, factor: 3}]}\n";
        break;
      default:
        steps += "- {step: colour_jitter, brightness: 0.5}\n";
    }
  }
  return steps + fmt::format("- {{step: centre_crop, size: {}}}\n", side());
}

TEST_CASE("a picture takes no more than it has asked for, whatever is done to it") {
  std::vector<Encoded> pictures;
  for (const auto& [width, height] :
       {std::pair{300, 200}, {37, 411}, {1, 900}, {900, 1}, {640, 480}})
    for (const bool is_png : {false, true})
      pictures.push_back(is_png ? encode_png(test::make_pixels(width, height, 3, 1), width, height)
                                : encode_jpeg(width, height, {.h = 2, .v = 2}));
  Random random(3);
  const std::uint64_t all = sanitized_share(400);
  std::uint64_t refused = 0;
  for (std::uint64_t i = 0; i < all; ++i) {
    const std::string steps = random_steps(random);
    const auto pipeline = compile(steps);
    const prepare::PicturePlan& plan =
        *static_cast<const prepare::CompiledPipeline&>(*pipeline).picture();
    const Encoded& picture = pictures[random.below(pictures.size())];
    std::vector<std::byte> out(pipeline->info().prepared_bytes), kept;
    // Now and then there is no memory for what is to be kept.
    const prepare::PictureWorker::Keep to_keep = [&,
                                                  has_memory = random.below(3) > 0](Bytes bytes) {
      kept.resize(bytes);
      return has_memory ? kept.data() : nullptr;
    };
    const auto* const keep = random.below(2) == 0 ? &to_keep : nullptr;
    Worker free(memory::kUncountable);
    if (!free.run(plan, picture, out.data(), keep)) continue;  // a line that would become many
    const Bytes held = free.pictures.held();
    CAPTURE(steps);
    CAPTURE(held);
    if (held <= kRounding) continue;
    Worker bounded(held - kRounding);
    CHECK_FALSE(bounded.run(plan, picture, out.data(), keep));
    CHECK(bounded.pictures.problem().find("of which a sample may have") != std::string::npos);
    CHECK(bounded.pictures.held() == 0);
    ++refused;
    free.pictures.drop();
    CHECK(free.pictures.held() == 0);
  }
  CHECK(refused > all / 2);
}

TEST_CASE(
    "a sample of the size that is allowed is the same bytes, and one of a byte more is not made") {
  const auto pipeline = compile("- {step: decode}\n- {step: resize, size: [40, 50]}\n");
  const prepare::PicturePlan& plan =
      *static_cast<const prepare::CompiledPipeline&>(*pipeline).picture();
  const Encoded picture = encode_png(test::make_pixels(200, 100, 3, 1), 200, 100);
  std::vector<std::byte> out(pipeline->info().prepared_bytes), bounded_out(out.size());
  REQUIRE(Worker(memory::kUncountable).run(plan, picture, out.data()));
  Bytes least = 0, most = Bytes{64} << 20;
  while (least + 1 < most) {
    const Bytes middle = (least + most) / 2;
    (Worker(middle).run(plan, picture, bounded_out.data()) ? most : least) = middle;
  }
  CHECK(most > prepare::PictureBuffer::bytes({200, 100}) + prepare::PictureBuffer::bytes({50, 40}));
  bounded_out.assign(out.size(), {});
  CHECK(Worker(most).run(plan, picture, bounded_out.data()));
  CHECK(bounded_out == out);
}

}  // namespace
}  // namespace batchflow::test::scratch_use_test
