// Pictures with files that say little of how large they are: counted as what they take once some
// have been decoded, so that what is kept of them leaves room for batches.
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/service/live.h"
#include "tests/runtime/service/seen.h"
#include "tests/runtime/service/status.h"

namespace batchflow::test::decoded_size_test {
namespace {

constexpr std::uint64_t kPictures = 300;

TEST_CASE("pictures that are a hundred times their files never take the memory of batches") {
  constexpr int kSide = 800;
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  const auto root = folder.path() / "pictures";
  const Encoded picture =
      encode_jpeg(std::vector<std::uint8_t>(kSide * kSide * 3, 90), kSide, kSide, {});
  for (std::uint64_t key = 0; key < kPictures; ++key)
    write_file(root / "a" / fmt::format("{:04}.jpg", key), picture);
  config.datasets.push_back({"pictures", root, "", "", 0, {}});
  const LiveService service(config);
  for (const bf_order order : {BF_RELAXED, BF_STRICT}) {
    JobPlan plan;
    plan.service = config.socket;
    plan.dataset = "pictures";
    plan.order = order;
    plan.epochs = 3;
    plan.timeout_s = 60;
    const Seen seen = see(plan);
    CHECK(seen.wrong == "");
    REQUIRE(seen.good.size() == 3);
    for (const auto& [epoch, keys] : seen.good) CHECK(is_whole(keys, kPictures));
  }
  const auto status = status_of(config.socket);
  CHECK(status.at("decoded_hits") > 0);
  CHECK(status.at("used_bytes") <= status.at("cache_bytes"));
  CHECK_FALSE(service.has_said("no memory for a batch"));
}

}  // namespace
}  // namespace batchflow::test::decoded_size_test
