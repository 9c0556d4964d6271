// bench_live: jobs served by batchflowd beside PyTorch's DataLoader with the same work, in turn.
//
//   bench_live [--rounds N] [--pictures N]
//   bench_live --bare [--rounds N] [--pictures N]
//
// With --bare there is no PyTorch: it shows what a picture that is decoded anew costs, beside the
// least that it can cost.
//
// Both read the same pictures and deliver the same type and shape. The page cache is warm for
// PyTorch; the service reads past it and keeps what it chooses, from an empty cache at each start.
// Jobs compute nothing, so that the greatest rate of delivery is measured.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/prepare/pictures.h"
#include "tests/temporary_folder.h"
#include "tools/bench/runtime/live/bare.h"
#include "tools/bench/spread.h"

namespace {

namespace fs = std::filesystem;
using batchflow::bench::Spread;
using batchflow::bench::spread_of;
using nlohmann::json;

std::string output_of(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) throw std::runtime_error(command + ": cannot be run");
  std::string out;
  char buffer[4096];
  while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, pipe))
    out.append(buffer, got);
  if (pclose(pipe) != 0) throw std::runtime_error(command + ": failed");
  return out;
}

// Samples a second of one kind of batch, a round each.
struct Turns {
  std::vector<double> ours, theirs, ratios;
};

void print(const std::string& what, const Turns& turns, double aim) {
  const Spread ratio = spread_of(turns.ratios);
  std::printf("%-26s %10.0f/s %10.0f/s %8.2f %7.2f - %6.2f %6.1f\n", what.c_str(),
              spread_of(turns.ours).middle, spread_of(turns.theirs).middle, ratio.middle,
              ratio.least, ratio.most, aim);
}

// Of all processes that this one started and that are over, theirs included.
double children_cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_CHILDREN, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Service and job, in an epoch in which nothing decoded is kept, beside the least work on the same
// pictures. Starting and the first epoch are in two runs of different lengths, so they cancel out.
void beside_bare(const std::vector<batchflow::test::Encoded>& pictures, const std::string& data,
                 const fs::path& folder, unsigned rounds) {
  constexpr unsigned kShort = 1, kLong = 5;
  const fs::path node = folder / "node.yaml";
  // Blocks of 64, and memory for some of them and for the pictures as they are stored.
  constexpr std::size_t kBlockBytes = 64 * 3 * 224 * 224, kStaging = std::size_t{64} << 20,
                        kOfService = std::size_t{64} << 20;
  std::size_t stored = 0;
  for (const auto& picture : pictures) stored += (picture.size() + 4095) / 4096 * 4096;
  const std::size_t memory = 11 * kBlockBytes + stored + kStaging + kOfService;
  std::ofstream(node) << fmt::format(
      "{{kind: node, storage: {{staging: {}}}, engine: {{block_bytes: {}, policies: "
      "{{allocation: 'encoded-first:forms=encoded+prepared'}}}}}}\n",
      kStaging, kBlockBytes);
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const auto cpu_of = [&](unsigned epochs) {
    const double before = children_cpu_s();
    output_of(
        fmt::format("{} --data {} --compute-ms 0 --batch 64 --epochs {} --presets default "
                    "--memory {} --config {} --pipeline imagenet-train --check",
                    (here / "batchflow-live").string(), data, epochs, memory, node.string()));
    return children_cpu_s() - before;
  };
  std::vector<double> served, codes, decode, scale, of_codes, of_decode;
  for (unsigned round = 0; round < rounds; ++round) {
    const batchflow::bench::BareCost bare = batchflow::bench::bare_cost(pictures);
    served.push_back((cpu_of(kLong) - cpu_of(kShort)) * 1e6 /
                     static_cast<double>((kLong - kShort) * pictures.size()));
    codes.push_back(bare.codes);
    decode.push_back(bare.decode);
    scale.push_back(bare.scale);
    of_codes.push_back(served.back() / (bare.codes + bare.scale));
    of_decode.push_back(served.back() / (bare.decode + bare.scale));
  }
  std::printf("CPU us a picture that is decoded anew, one job\n");
  const auto print = [](const char* what, const std::vector<double>& values) {
    const Spread spread = spread_of(values);
    std::printf("%-52s %8.2f %8.2f - %8.2f\n", what, spread.middle, spread.least, spread.most);
  };
  print("  served, of service and job", served);
  print("  reading its codes", codes);
  print("  reading them and making pixels of a crop", decode);
  print("  scaling the crop", scale);
  print("  served over codes and scaling (aim: 1.15)", of_codes);
  print("  served over codes, pixels and scaling", of_decode);
}

int bench(int argc, char** argv) {
  unsigned rounds = 5, pictures = 2048;
  bool small = false, bare = false;
  CLI::App app("Jobs served by batchflowd beside PyTorch's DataLoader.", "bench_live");
  app.add_option("--rounds", rounds, "Turns of each")->check(CLI::Range(1, 100));
  app.add_option("--pictures", pictures, "In the dataset")->check(CLI::Range(64, 1000000));
  app.add_flag("--bare", bare, "Only CPU time, beside the least work on the same pictures");
  app.add_flag("--small", small, "One round of few pictures: whether it works");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (small) {
    rounds = 1;
    pictures = 128;
  }
  const char* python = "/usr/bin/python3";
  if (!bare &&
      std::system(fmt::format("{} -c 'import torch, torchvision' 2>/dev/null", python).c_str())) {
    std::printf("skipped: %s has no torch and torchvision (apt-get install python3-torchvision)\n",
                python);
    return 77;
  }
  const batchflow::test::TemporaryFolder temporary;
  const fs::path& folder = temporary.path();
  std::size_t bytes = 0;
  std::vector<batchflow::test::Encoded> kept;  // for `beside_bare`
  for (unsigned i = 0; i < pictures; ++i) {
    const fs::path place = folder / "pictures" / fmt::format("class{}", i % 10);
    fs::create_directories(place);
    const batchflow::test::Encoded picture =
        batchflow::test::encode_jpeg(500, 375, {.quality = 75}, i);
    bytes += picture.size();
    std::ofstream(place / fmt::format("{:06}.jpg", i), std::ios::binary)
        .write(reinterpret_cast<const char*>(picture.data()),
               static_cast<std::streamsize>(picture.size()));
    if (bare) kept.push_back(picture);
  }
  const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::printf(
      "%u pictures of 500 x 375, %.0f KB each; batches of 64; %u cores; %u rounds in turn\n\n",
      pictures, static_cast<double>(bytes) / pictures / 1000, cores, rounds);
  if (bare) {
    beside_bare(kept, (folder / "pictures").string(), folder, rounds);
    return 0;
  }
  std::printf("%-26s %12s %12s %8s %16s %6s\n", "what", "BatchFlow", "PyTorch", "ratio",
              "least - most", "aim");
  const fs::path here = fs::read_symlink("/proc/self/exe").parent_path();
  const std::string data = (folder / "pictures").string();
  const auto served = [&](unsigned jobs, bool as_float) -> double {
    std::string zeros = "0";
    for (unsigned i = 1; i < jobs; ++i) zeros += ",0";
    const fs::path result = folder / "result.json";
    output_of(
        fmt::format("{} --data {} --compute-ms {} --batch 64 --epochs 2 --presets default "
                    "--memory 2gib --pipeline {} --check --json {}",
                    (here / "batchflow-live").string(), data, zeros,
                    as_float ? "imagenet-train-f32" : "imagenet-train", result.string()));
    std::ifstream in(result);
    return json::parse(in)["runs"][0]["aggregate"]["samples_per_s"];
  };
  const auto loaded = [&](unsigned jobs, bool as_float) -> double {
    return json::parse(
        output_of(fmt::format("{} {} --data {} --jobs {} --epochs 2 --batch 64 --workers {} {}",
                              python, BATCHFLOW_ROOT "/tools/live/torch_jobs.py", data, jobs, cores,
                              as_float ? "--float" : "")))["samples_per_s"];
  };
  for (const bool as_float : {false, true}) {
    Turns one, four;
    // What all cores prepare for one job would serve four, if it were prepared once for all.
    std::vector<double> of_once;
    for (unsigned round = 0; round < rounds; ++round) {
      for (Turns* turns : {&one, &four}) {
        const unsigned jobs = turns == &one ? 1 : 4;
        turns->ours.push_back(served(jobs, as_float));
        turns->theirs.push_back(loaded(jobs, as_float));
        turns->ratios.push_back(turns->ours.back() / turns->theirs.back());
      }
      of_once.push_back(four.ours.back() / (4 * one.ours.back()));
    }
    const char* type = as_float ? "float32" : "uint8";
    print(fmt::format("one job, {}", type), one, 2.5);
    print(fmt::format("four jobs, {}", type), four, as_float ? 10 : 8);
    const Spread once = spread_of(of_once);
    std::printf("%-52s %8.2f %7.2f - %6.2f %6.1f\n", "  of four times what one gets, prepared once",
                once.middle, once.least, once.most, 0.9);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return bench(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "bench_live: %s\n", error.what());
    return 1;
  }
}
