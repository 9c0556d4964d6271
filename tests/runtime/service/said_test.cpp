// What a job is told of its data, and the bound of corrupt samples that it has of its own.
#include "runtime/prepare/picture_kinds.h"
#include "runtime/service/jobs/refusals.h"
#include "tests/runtime/prepare/pictures.h"
#include "tests/runtime/service/live.h"

namespace batchflow::test::said_test {
namespace {

// A job of two epochs: what it was told of its data, and how it ended; empty: well.
struct Told {
  std::vector<std::string> of_data;
  std::string wrong;
};

Told run(const service::NodeConfig& config, const std::string& dataset, const char* pipeline,
         double corrupt_ratio_max = -1) {
  Told told;
  const std::string socket = config.socket.string();
  bf_loader_options options = BF_LOADER_OPTIONS_INIT;
  options.service = socket.c_str();
  options.dataset = dataset.c_str();
  options.pipeline = pipeline;
  options.batch_samples = 8;
  options.epochs = 2;
  options.has_corrupt_ratio_max = corrupt_ratio_max >= 0 ? 1 : 0;
  options.corrupt_ratio_max = corrupt_ratio_max;
  options.timeout_s = 60;
  options.say_context = &told;
  options.say = [](void* context, bf_said about, const char* text) {
    if (about == BF_SAID_OF_DATA) static_cast<Told*>(context)->of_data.emplace_back(text);
  };
  bf_loader* loader = nullptr;
  bf_status status = bf_loader_open(&options, &loader);
  bf_batch batch = BF_BATCH_INIT;
  while (status == BF_OK && (status = bf_loader_next(loader, &batch)) == BF_OK)
    bf_batch_release(loader, batch.handle);
  if (status != BF_END) told.wrong = bf_last_error();
  bf_loader_close(loader);
  return told;
}

constexpr const char* kSteps =
    R"({"kind": "pipeline", "name": "small",
        "steps": [{"step": "decode"}, {"step": "centre_crop", "size": 8}]})";

// `count` files in two classes, every `one_in`th of them with `ending` and no picture.
void write_pictures(const std::filesystem::path& root, int count, int one_in,
                    const std::string& ending) {
  const Encoded picture = encode_jpeg(48, 40);
  for (int i = 0; i < count; ++i) {
    const bool is_other = i % one_in == 3 % one_in;
    write_file(
        root / (i % 2 == 0 ? "a" : "b") / fmt::format("{:04}{}", i, is_other ? ending : ".jpg"),
        is_other ? Encoded(300, std::byte{1}) : picture);
  }
}

bool has(const std::string& text, std::string_view words) {
  return text.find(words) != text.npos;
}

}  // namespace

TEST_CASE("each job has the bound of corrupt samples that it asks for, as far as is allowed") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.corrupt_ratio_allowed = Ratio{Ratio::kWhole / 10};
  const auto root = folder.path() / "pictures";
  write_pictures(root, 200, 20, ".jpg");  // ten of these are cut: 5 %
  config.datasets.push_back({"pictures", root, "", "", 0, {}});
  const LiveService service(config);
  CHECK(run(config, "pictures", kSteps, 0.05).wrong == "");
  // By now all ten are known.
  for (const double ratio : {-1.0, 0.045}) {
    const Told told = run(config, "pictures", kSteps, ratio);
    CHECK_MESSAGE(has(told.wrong, ratio < 0 ? "10 samples cannot be prepared, 8 may be so"
                                            : "10 samples cannot be prepared, 9 may be so"),
                  told.wrong);
  }
  const Told greedy = run(config, "pictures", kSteps, 0.2);
  CHECK_MESSAGE(has(greedy.wrong, "corrupt_ratio_max of 0.2: this service lets a job ask for 0.1"),
                greedy.wrong);
  CHECK(run(config, "pictures", kSteps, 0.1).wrong == "");
}

TEST_CASE("corrupt samples are too many, or none was found in place of one: each is said") {
  const auto text = [](std::uint64_t corrupt, std::uint64_t allowed) {
    return service::refusal_text({JobId(0), engine::Refusal::too_many_corrupt, corrupt, allowed});
  };
  CHECK(has(text(103, 102), "103 samples cannot be prepared, 102 may be so; "));
  CHECK(
      has(text(103, 102),
          "allow more: DataLoader(..., corrupt_ratio_max=0.01), which every service allows that a "
          "script started, and others as far as corrupt_ratio_allowed"));
  for (const std::uint64_t corrupt : {100, 102}) {
    CAPTURE(corrupt);
    CHECK(text(corrupt, 102)
              .starts_with(
                  fmt::format("none of 64 tries found a sample that can be prepared in place of a "
                              "corrupt one: {} "
                              "samples are known that cannot be prepared, though 102 may be so; ",
                              corrupt)));
    CHECK_FALSE(has(text(corrupt, 102), "corrupt_ratio_max"));
  }
}

TEST_CASE("a dataset without a good sample ends its job, and no bound is blamed") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  config.corrupt_ratio_allowed = Ratio{Ratio::kWhole};
  write_pictures(folder.path() / "pictures", 8, 1, ".jpg");  // all cut
  config.datasets.push_back({"pictures", folder.path() / "pictures", "", "", 0, {}});
  const LiveService service(config);
  const Told told = run(config, "pictures", kSteps, 1);
  CHECK_MESSAGE(has(told.wrong, "none of 64 tries found a sample that can be prepared"),
                told.wrong);
}

TEST_CASE("without a word of the operator's, a job may ask for no more than all have") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  write_pictures(folder.path() / "pictures", 20, 50, ".jpg");
  config.datasets.push_back({"pictures", folder.path() / "pictures", "", "", 0, {}});
  const LiveService service(config);
  CHECK(run(config, "pictures", kSteps, 0.001).wrong == "");
  CHECK(has(run(config, "pictures", kSteps, 0.002).wrong, "lets a job ask for 0.001"));
}

TEST_CASE("a job is told how many files of which kind cannot be decoded") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  const auto root = folder.path() / "pictures";
  write_pictures(root, 40, 8, ".PPM");
  write_file(root / "a" / "0041.pgm", Encoded(9, std::byte{2}));
  config.datasets.push_back({"pictures", root, "", "", 0, {}});
  const LiveService service(config);
  const Told told = run(config, "pictures", kSteps);
  CHECK(told.wrong == "");
  REQUIRE(told.of_data.size() == 1);
  CHECK(told.of_data.front() ==
        "6 of 41 samples cannot be decoded: .ppm (5), .pgm (1); " + prepare::decoded_kinds() +
            " can. Another sample stands in the place of each; convert them, or leave them out "
            "(docs/python.md)");
  CHECK(run(config, "pictures", "bytes").of_data.empty());
}

TEST_CASE("files that are no pictures are served as bytes with a word, and to no decoder") {
  Folder folder;
  service::NodeConfig config = config_in(folder.path());
  for (const char* ending : {".wav", ".mp4", ".txt", ".h5"}) {
    const auto root = folder.path() / (ending + 1);
    for (int i = 0; i < 20; ++i)
      write_file(root / (i % 2 == 0 ? "a" : "b") / fmt::format("{:02}{}", i, ending),
                 Encoded(100, std::byte{3}));
    config.datasets.push_back({ending + 1, root, "", "", 0, {}});
  }
  const LiveService service(config);
  for (const std::string name : {"wav", "mp4", "txt", "h5"}) {
    CAPTURE(name);
    const Told told = run(config, name, nullptr);
    CHECK(told.wrong == "");
    REQUIRE(told.of_data.size() == 1);
    CHECK_MESSAGE(has(told.of_data.front(), "its samples are the bytes of its files, ." + name +
                                                " (20), as they are: no pipeline was named"),
                  told.of_data.front());
    CHECK(run(config, name, "bytes").of_data.empty());
    for (const char* pipeline : {kSteps, "imagenet-train"}) {
      const Told refused = run(config, name, pipeline);
      CHECK_MESSAGE(has(refused.wrong, "'decode' is for pictures in " + prepare::decoded_kinds() +
                                           ", and dataset '" + name + "' holds ." + name + " (20)"),
                    refused.wrong);
    }
  }
}

}  // namespace batchflow::test::said_test
