// Pipelines as text: each is refused by a ConfigError, or prepares a picture.
#include <memory>

#include "programs/input/yaml.h"
#include "tests/runtime/prepare/harness.h"
#include "tests/runtime/prepare/pictures.h"

namespace batchflow::test {

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const auto dataset = test::files_dataset();
  static const auto preparer = prepare::make_preparer();
  std::unique_ptr<prepare::Pipeline> pipeline;
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    pipeline = test::compile(input::parse_yaml(text, "fuzz.yaml"), dataset);
  } catch (const ConfigError&) {
    return 0;
  }
  BF_CHECK(pipeline->spec().problem().empty());
  if (pipeline->info().prepared_bytes > 1 << 22) return 0;  // nothing but time
  test::Slot slot(*pipeline);
  // Encoded: what is kept decoded would have to be what this pipeline makes of it.
  static const Encoded picture = encode_png(make_pixels(9, 7, 3, 1), 9, 7);
  test::prepare(*preparer, *pipeline, {picture, false, 1}, slot);
  return 0;
}

}  // namespace batchflow::test
