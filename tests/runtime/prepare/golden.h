// The files that make_golden.py wrote: pictures, pipelines, and what Pillow and torchvision made of
// them.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "core/base/config_value.h"
#include "programs/input/yaml.h"
#include "runtime/prepare/picture_kinds.h"
#include "tests/source_dir.h"

namespace batchflow::test {

inline std::vector<std::byte> read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE(file);
  const std::vector<char> text((std::istreambuf_iterator<char>(file)), {});
  const auto* bytes = reinterpret_cast<const std::byte*>(text.data());
  return {bytes, bytes + text.size()};
}

inline std::filesystem::path golden_folder() {
  return source_dir() / "tests/runtime/prepare/golden";
}

struct GoldenCase {
  std::string name;
  std::string picture;
  std::uint64_t draw_key = 0;
  std::uint64_t differ_at_most = 0;  // bytes, by 1 each
  config::ConfigNode pipeline;
};

inline std::vector<GoldenCase> golden_cases() {
  const auto folder = golden_folder();
  std::vector<GoldenCase> cases;
  const config::ConfigNode root = input::read_yaml_file(folder / "cases.yaml");
  for (const config::ConfigNode& node : root.find("cases")->list) {
    const config::ConfigNode* const differ = node.find("differ_at_most");
    cases.push_back({node.find("name")->scalar, node.find("picture")->scalar,
                     *parse_unsigned(node.find("draw_key")->scalar),
                     differ ? *parse_unsigned(differ->scalar) : 0, *node.find("pipeline")});
  }
  return cases;
}

// Whether this build has what decodes the picture.
inline bool is_decoded_here(std::span<const std::byte> picture) {
  const prepare::PictureKind* const kind = prepare::picture_kind(picture);
  REQUIRE(kind);
  return kind->make != nullptr;
}

}  // namespace batchflow::test
