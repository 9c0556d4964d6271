#include "core/engine/catalogue.h"

#include <doctest/doctest.h>

#include "core/base/random.h"

namespace batchflow::test::catalogue_test {

namespace {

std::vector<std::byte> bytes_of_catalogue(const engine::Catalogue& catalogue) {
  std::vector<std::byte> bytes;
  engine::encode(catalogue, bytes);
  return bytes;
}

engine::Catalogue make(engine::Catalogue::Parts parts) {
  std::string problem;
  auto catalogue = engine::Catalogue::from(std::move(parts), problem);
  REQUIRE_MESSAGE(catalogue.has_value(), problem);
  return std::move(*catalogue);
}

engine::Catalogue::Parts three_pictures() {
  engine::Catalogue::Parts parts;
  parts.name = "three";
  parts.version = 0xfedcba9876543210;
  parts.samples = 3;
  parts.bytes = {100, 0, 301};
  parts.dimensions = {{4, 5}, {0, 0}, {1u << 31, 7}};
  parts.classes = 2;
  parts.labels = {1, 0, 1};
  return parts;
}

void check_round_trip(const engine::Catalogue& catalogue) {
  std::string problem;
  const auto bytes = bytes_of_catalogue(catalogue);
  const auto again = engine::decode_catalogue(bytes, problem);
  REQUIRE_MESSAGE(again.has_value(), problem);
  CHECK(bytes_of_catalogue(*again) == bytes);
  CHECK(again->name() == catalogue.name());
  CHECK(again->total_bytes() == catalogue.total_bytes());
}

bool refused(void (*change)(engine::Catalogue::Parts&)) {
  engine::Catalogue::Parts parts = three_pictures();
  change(parts);
  std::string problem;
  return !engine::Catalogue::from(std::move(parts), problem) && !problem.empty();
}

}  // namespace

TEST_CASE("a catalogue answers what it was given") {
  const engine::Catalogue catalogue = make(three_pictures());
  CHECK(catalogue.bytes(SampleId(2)) == 301);
  CHECK(catalogue.total_bytes() == 401);
  CHECK(catalogue.mean_bytes() == 133);
  CHECK(catalogue.dimensions(SampleId(0)) == engine::Dimensions{4, 5});
  CHECK(catalogue.label(SampleId(1)) == 0u);
  CHECK(!catalogue.is_uniform());
  check_round_trip(catalogue);
}

TEST_CASE("an item takes the slots its bytes need, and one at least") {
  const engine::Catalogue catalogue = make(three_pictures());
  CHECK(catalogue.slots(SampleId(0), 100) == 1);
  CHECK(catalogue.slots(SampleId(1), 100) == 1);
  CHECK(catalogue.slots(SampleId(2), 100) == 4);
  CHECK(catalogue.slots(SampleId(2), 1) == 301);
}

TEST_CASE("uniform catalogues cost nothing, at any size") {
  const engine::Catalogue catalogue =
      engine::Catalogue::uniform("many", 7, 1'000'000'000'000, 110'000);
  CHECK(catalogue.bytes(SampleId(999'999'999'999)) == 110'000);
  CHECK(catalogue.mean_bytes() == 110'000);
  CHECK(!catalogue.dimensions(SampleId(5)));
  CHECK(!catalogue.label(SampleId(5)));
  CHECK(bytes_of_catalogue(catalogue).size() < 40);
  check_round_trip(catalogue);
}

TEST_CASE("samples above 4 GiB keep their sizes") {
  engine::Catalogue::Parts parts;
  parts.samples = 2;
  parts.bytes = {Bytes{1} << 40, 1};
  const engine::Catalogue catalogue = make(parts);
  CHECK(catalogue.bytes(SampleId(0)) == Bytes{1} << 40);
  check_round_trip(catalogue);
}

TEST_CASE("small samples come in bundles") {
  engine::Catalogue::Parts parts;
  parts.samples = 10;
  parts.uniform_bytes = 64;
  parts.bundle_shift = 2;
  const engine::Catalogue rows = make(parts);
  CHECK(rows.bundles() == 3);
  CHECK(rows.bundle_bytes(1) == 256);
  CHECK(rows.bundle_bytes(2) == 128);
  CHECK(engine::first_in_bundle(SampleId(7), rows.bundle_shift()) == SampleId(4));
  check_round_trip(rows);

  engine::Catalogue::Parts three = three_pictures();
  three.bundle_shift = 1;
  std::string problem;
  CHECK_FALSE(engine::Catalogue::from(three, problem));
  CHECK(problem == "a list does not have one entry for each of 2 bundles");
  three.bundle_bytes = {110, 301};
  const engine::Catalogue pictures = make(three);
  CHECK(pictures.bundle_bytes(0) == 110);
  check_round_trip(pictures);
  std::string again;
  CHECK(engine::decode_catalogue(bytes_of_catalogue(pictures), again)->bundle_bytes(1) == 301);
  three.bundle_shift = 17;
  CHECK_FALSE(engine::Catalogue::from(three, problem));
}

TEST_CASE("parts that do not fit together are refused") {
  CHECK(!refused([](engine::Catalogue::Parts&) {}));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.samples = 0; }));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.samples = 4; }));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.samples = 1'000'000'000'001; }));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.bytes.pop_back(); }));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.dimensions.pop_back(); }));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.labels.pop_back(); }));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.labels[2] = 2; }));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.bytes[1] = UINT64_MAX; }));
  CHECK(refused([](engine::Catalogue::Parts& p) { p.name.assign(5000, 'x'); }));
}

TEST_CASE("hostile bytes: truncated everywhere, changed at random") {
  const auto bytes = bytes_of_catalogue(make(three_pictures()));
  std::string problem;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    REQUIRE(!engine::decode_catalogue(std::span(bytes).first(size), problem));
  }
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    INFO("seed = " << seed);
    Random random(hash(14, seed));
    auto changed = bytes;
    for (std::uint64_t k = random.below(3) + 1; k > 0; --k) {
      changed[random.below(changed.size())] = static_cast<std::byte>(random.below(256));
    }
    if (const auto catalogue = engine::decode_catalogue(changed, problem))
      check_round_trip(*catalogue);
  }
}

TEST_CASE("catalogues and pipelines are found by id and digest, and never move") {
  engine::Catalogues known;
  const engine::Catalogue& first =
      known.add(DatasetId(1), engine::Catalogue::uniform("a", 10, 5, 6));
  known.add(DatasetId(1), engine::Catalogue::uniform("a", 11, 7, 6));
  known.add(DatasetId(2), engine::Catalogue::uniform("b", 10, 8, 6));
  CHECK(known.find(DatasetId(1), 10) == &first);
  CHECK(known.find(DatasetId(1), 11)->samples() == 7);
  CHECK(known.find(DatasetId(2), 11) == nullptr);
  engine::PipelineInfo pipeline;
  pipeline.hash = 3;
  known.add(PipelineId(4), pipeline);
  CHECK(known.find(PipelineId(4), 3)->hash == 3);
  CHECK(known.find(PipelineId(4), 5) == nullptr);
  CHECK(!pipeline.decodes());
}

}  // namespace batchflow::test::catalogue_test
