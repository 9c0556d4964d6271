// The kinds of pictures that are decoded. Their content says which kind a picture is, never its
// name.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/prepare/decode.h"

namespace batchflow::prepare {

struct PictureKind {
  std::string_view name;
  bool (*is)(std::span<const std::byte> bytes);
  // Null in a build without the library. `package` is what such a build lacks.
  std::unique_ptr<Decoder> (*make)();
  std::string_view package;
};

inline constexpr std::size_t kPictureKinds = 6;
const std::array<PictureKind, kPictureKinds>& picture_kinds();

// Null: of none of these kinds.
const PictureKind* picture_kind(std::span<const std::byte> bytes,
                                std::span<const PictureKind> kinds = picture_kinds());

// As "JPEG, PNG and BMP": what this build decodes.
std::string decoded_kinds();
// Names the libraries that decide which pictures are decoded, and their pixels: it is a part of
// each pipeline's hash, since what one build decodes is corrupt to another. Pixels of the optional
// kinds do not depend on the version of their library.
std::string decoder_builds();
// As "neither JPEG, PNG nor BMP".
std::string no_picture();

// A decoder of each kind that has been asked for, for one thread.
class PictureDecoders {
 public:
  // REQUIRES: `kinds` stays
  explicit PictureDecoders(std::span<const PictureKind> kinds = picture_kinds())
      : kinds_(kinds), made_(kinds.size()) {}

  // The decoder for such a picture. Null: see problem(). Throws std::bad_alloc.
  Decoder* find(std::span<const std::byte> bytes);
  const std::string& problem() const { return problem_; }

  // As those of Decoder, for all of them.
  void end();
  Bytes held() const;
  void drop();

 private:
  std::span<const PictureKind> kinds_;
  std::vector<std::unique_ptr<Decoder>> made_;
  std::string problem_;
};

}  // namespace batchflow::prepare
