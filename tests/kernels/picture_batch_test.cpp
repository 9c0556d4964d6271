// The references of the kernels beside the steps of pipelines: the same bytes.
#include "kernels/picture_batch.h"

#include <doctest/doctest.h>

#include <vector>

#include "core/base/random.h"
#include "runtime/prepare/colour.h"
#include "runtime/prepare/finish.h"
#include "runtime/prepare/resample.h"

namespace batchflow {
namespace {

using namespace kernels;

int between(Random& random, int least, int most) {
  return least + static_cast<int>(random.below(static_cast<std::uint64_t>(most - least) + 1));
}

struct Picture {
  std::vector<std::uint8_t> pixels;
  PictureTask task;
};

Picture random_picture(Random& random, bool scales, bool jitters) {
  Picture made;
  PictureTask& task = made.task;
  task.extent = {between(random, 1, 90), between(random, 1, 70)};
  task.stride = static_cast<std::size_t>(task.extent.width * kChannels + between(random, 0, 5));
  made.pixels.resize(task.stride * static_cast<std::size_t>(task.extent.height));
  for (std::uint8_t& byte : made.pixels) byte = static_cast<std::uint8_t>(random.draw() >> 56);
  task.pixels = made.pixels.data();
  Scaling& s = task.scaling;
  s.from.width = between(random, 1, task.extent.width);
  s.from.height = between(random, 1, task.extent.height);
  s.from.x = between(random, 0, task.extent.width - s.from.width);
  s.from.y = between(random, 0, task.extent.height - s.from.height);
  s.to = scales ? Extent2{between(random, 1, 60), between(random, 1, 60)} : s.from.extent();
  s.window.width = between(random, 1, s.to.width);
  s.window.height = between(random, 1, s.to.height);
  s.window.x = between(random, 0, s.to.width - s.window.width);
  s.window.y = between(random, 0, s.to.height - s.window.height);
  s.flip = random.below(2) == 1;
  if (jitters) {
    shuffle(std::span<ColourChange>(task.jitter.order), random);
    for (float& factor : task.jitter.factor) factor = static_cast<float>(random.unit() * 2);
    task.jitter.factor[3] = static_cast<float>(random.unit() - 0.5);
  }
  return made;
}

std::vector<std::byte> by_steps(const PictureTask& task, const prepare::Finish& finish,
                                const prepare::Kernels& loops, std::size_t bytes) {
  prepare::Resampler resampler(loops);
  prepare::PictureBuffer scaled;
  const prepare::PictureView source{task.pixels, task.stride, task.extent};
  resampler.run(task.scaling, source, whole(task.extent), scaled);
  for (const ColourChange change : task.jitter.order)
    prepare::apply(change, task.jitter.factor_of(change), scaled);
  std::vector<std::byte> out(bytes);
  finish.write(scaled.view(), loops, out.data());
  return out;
}

constexpr batch::ElementType kTypes[] = {batch::ElementType::u8, batch::ElementType::f16,
                                         batch::ElementType::bf16, batch::ElementType::f32};

TEST_CASE("pictures of a batch have the bytes that the steps of a pipeline make") {
  Random random(29);
  const std::vector<const prepare::Kernels*> loops = prepare::all_kernels();
  for (int i = 0; i < 400; ++i) {
    const auto element = static_cast<Element>(i % 4);
    const bool planes = i / 4 % 2 == 0;
    std::optional<Normalisation> normalisation;
    if (element != Element::u8 && i % 16 < 12)
      normalisation = Normalisation{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
    const FinishTable table = finish_table(element, normalisation);
    const prepare::Finish finish(kTypes[i % 4], normalisation, planes);
    Picture picture = random_picture(random, i % 3 > 0, i % 3 > 1);
    REQUIRE(problem(picture.task) != nullptr);  // it has nowhere to go yet
    const Box& window = picture.task.scaling.window;
    std::vector<std::byte> made(static_cast<std::size_t>(window.width) *
                                static_cast<std::size_t>(window.height) * kChannels *
                                bytes_of(element));
    picture.task.out = made.data();
    REQUIRE(problem(picture.task) == nullptr);
    PictureBatch batch;
    batch.tasks = &picture.task;
    batch.count = 1;
    batch.limits.add(picture.task);
    batch.element = element;
    batch.planes = planes;
    batch.table = &table;
    on_cpu::prepare_pictures(batch);
    for (const prepare::Kernels* one : loops)
      CHECK(made == by_steps(picture.task, finish, *one, made.size()));
  }
}

TEST_CASE("arithmetic finishes as the table does, wherever it is chosen") {
  const Normalisation usual{{0.485f, 0.456f, 0.406f}, {0.229f, 0.224f, 0.225f}};
  CHECK(finish_table(Element::f16, usual).by != FinishTable::By::table);
  CHECK(finish_table(Element::bf16, usual).by != FinishTable::By::table);
  CHECK(finish_table(Element::f32, usual).by != FinishTable::By::table);
  CHECK(finish_table(Element::f32, std::nullopt).by == FinishTable::By::product);
  CHECK(finish_table(Element::u8, std::nullopt).by == FinishTable::By::product);
  // Numbers that no arithmetic of ours gives: the table is used.
  const Normalisation endless{{0, 0, 0}, {0, 1, 1}};
  CHECK(finish_table(Element::f32, endless).by == FinishTable::By::table);
}

TEST_CASE("a task that would read or write elsewhere is refused") {
  std::uint8_t pixels[30 * 10] = {};
  std::byte out[64];
  PictureTask task;
  task.pixels = pixels;
  task.stride = 30;
  task.extent = {10, 10};
  task.scaling = {{2, 2, 8, 8}, {4, 4}, {0, 0, 4, 4}, false};
  task.out = out;
  CHECK(problem(task) == nullptr);
  const auto with = [&](auto change) {
    PictureTask changed = task;
    change(changed);
    return problem(changed);
  };
  CHECK(with([](PictureTask& t) { t.scaling.from.x = 3; }));
  CHECK(with([](PictureTask& t) { t.scaling.from.y = -1; }));
  CHECK(with([](PictureTask& t) { t.scaling.from.width = 0x7fffffff; }));
  CHECK(with([](PictureTask& t) { t.scaling.window.height = 5; }));
  CHECK(with([](PictureTask& t) { t.scaling.to = {}; }));
  CHECK(with([](PictureTask& t) { t.scaling.filter = Filter::bicubic; }));
  CHECK(with([](PictureTask& t) { t.scaling.upside_down = true; }));
  CHECK(with([](PictureTask& t) { t.stride = 29; }));
  CHECK(with([](PictureTask& t) { t.pixels = nullptr; }));
}

}  // namespace
}  // namespace batchflow
