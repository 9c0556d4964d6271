// Where there is no CUDA toolkit: decoding to a GPU says that it is not there.
#include "runtime/gpu/jpeg_decoders.h"

namespace batchflow::gpu {

struct JpegDecoders::Parts {
  std::vector<std::string> notes;
};

JpegDecoders::Options JpegDecoders::options_for(unsigned) {
  return {};
}
std::unique_ptr<JpegDecoders> JpegDecoders::open(const Options&, std::string& problem) {
  problem = "this was built without CUDA";
  return nullptr;
}
JpegDecoders::JpegDecoders(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
JpegDecoders::~JpegDecoders() = default;
void JpegDecoders::decode(std::span<const JpegPicture>, std::span<JpegResult>,
                          std::function<void()> done) {
  done();
}
void JpegDecoders::decode(std::span<const JpegPicture>, std::span<JpegResult>) {}
std::uint64_t JpegDecoders::decoded_by(JpegWay) const {
  return 0;
}
double JpegDecoders::late_ns(JpegWay) const {
  return 0;
}
const std::vector<std::string>& JpegDecoders::notes() const {
  return parts_->notes;
}

}  // namespace batchflow::gpu
