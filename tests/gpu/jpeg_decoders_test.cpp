#include "runtime/gpu/jpeg_decoders.h"

#include <doctest/doctest.h>

#include "tests/skip.h"

namespace batchflow::gpu {
namespace {

TEST_CASE("without a GPU it says why, and the caller goes on") {
  std::string problem;
  const auto decoders = JpegDecoders::open(JpegDecoders::options_for(2), problem);
  if (decoders) return test::skipped("there is a GPU");
  MESSAGE(problem);
  CHECK_FALSE(problem.empty());
}

TEST_CASE("a GPU that is not there is refused") {
  std::string problem;
  JpegDecoders::Options options;
  options.device = 1000;
  CHECK_FALSE(JpegDecoders::open(options, problem));
  CHECK_FALSE(problem.empty());
}

}  // namespace
}  // namespace batchflow::gpu
