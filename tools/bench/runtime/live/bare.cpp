#include "tools/bench/runtime/live/bare.h"

#include <memory>

#include "core/base/check.h"
#include "core/base/random.h"
#include "runtime/prepare/decode.h"
#include "runtime/prepare/geometry.h"
#include "runtime/prepare/resample.h"
#include "tools/bench/process_cost.h"

namespace batchflow::bench {
namespace {

// A crop as the pipeline `imagenet-train` draws them.
prepare::Box random_box(std::size_t i, prepare::Extent2 extent) {
  Random random(hash(3, i));
  return prepare::random_crop(extent, {0.08, 1}, {3.0 / 4, 4.0 / 3}, random);
}

}  // namespace

BareCost bare_cost(const std::vector<test::Encoded>& pictures) {
  const std::unique_ptr<prepare::Decoder> decoder = prepare::make_jpeg_decoder();
  prepare::Resampler resampler(prepare::best_kernels());
  prepare::PictureBuffer picture, out;
  BareCost cost;
  const double count = static_cast<double>(pictures.size());
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    double since = cpu_s();
    const auto took = [&since, count] {
      const double before = since;
      since = cpu_s();
      return (since - before) * 1e6 / count;
    };
    BF_CHECK(decoder->open(pictures[i], {}));
    decoder->decode({0, 0, 1, 1}, picture);
    cost.codes += took();
    BF_CHECK(decoder->open(pictures[i], {}));
    const prepare::Box box = random_box(i, decoder->extent());
    const prepare::Box decoded = decoder->decode(box, picture);
    cost.decode += took();
    resampler.run({box, {224, 224}, {0, 0, 224, 224}, i % 2 == 0}, picture.view(), decoded, out);
    cost.scale += took();
  }
  return cost;
}

}  // namespace batchflow::bench
