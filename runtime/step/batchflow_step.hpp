// A step of a pipeline as a C++ class. Needs nothing but this header, batchflow_step.h and C++20.
//
//   class Invert {
//    public:
//     explicit Invert(batchflow::step::Parameters& parameters);
//     batchflow::step::Array output(const batchflow::step::Array& input) const;
//     void run(const batchflow::step::Input& in, batchflow::step::Output& out,
//              batchflow::step::Draws& draws) const;
//   };
//   BATCHFLOW_STEP(Invert, "invert", "1", deterministic)
//
// Whatever the constructor or output() throws is why the pipeline is refused; whatever run()
// throws is why the sample is corrupt, and another one takes its place.
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "batchflow_step.h"

namespace batchflow::step {

enum class Type : std::uint32_t { u8, i8, u16, i16, i32, i64, f16, bf16, f32, f64 };

// What samples are like: docs/batches.md, Fields.
struct Array {
  Type type = Type::u8;
  std::vector<std::uint64_t> shape;  // 0: differs from sample to sample
  bool ragged = false;               // the first of the shape is the most there may be
  std::string name;                  // of the batch's field; empty: as it was
};

// Pictures before they are normalised, cast or laid out: rows of RGB, eight bits each.
inline bool is_picture(const Array& array) {
  return array.type == Type::u8 && !array.ragged && array.shape.size() == 3 && array.shape[2] == 3;
}

// What stands beside `plugin:` in the pipeline. A name that the step does not ask for is refused.
class Parameters {
 public:
  explicit Parameters(const bf_step_setup& setup) : setup_(setup) {}

  // A list, or one value; empty if it is not there.
  std::vector<std::string> texts(std::string_view name) {
    known_.emplace(name);
    std::vector<std::string> values;
    for (const bf_step_parameter& one : std::span(setup_.parameter, setup_.parameters))
      if (name == one.name) values.emplace_back(one.value);
    return values;
  }
  std::string text(std::string_view name, std::string_view fallback) {
    const std::vector<std::string> values = texts(name);
    if (values.size() > 1) throw std::runtime_error(std::string(name) + " is a list; write one");
    return values.empty() ? std::string(fallback) : values.front();
  }
  double number(std::string_view name, double fallback, double least, double most) {
    const std::string value = text(name, "");
    if (value.empty()) return fallback;
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (*end != 0 || !(number >= least && number <= most))
      throw std::runtime_error(std::string(name) + " is '" + value + "'; write a number from " +
                               std::to_string(least) + " to " + std::to_string(most));
    return number;
  }
  std::int64_t integer(std::string_view name, std::int64_t fallback, std::int64_t least,
                       std::int64_t most) {
    const std::string value = text(name, "");
    if (value.empty()) return fallback;
    char* end = nullptr;
    errno = 0;
    const std::int64_t number = std::strtoll(value.c_str(), &end, 10);
    if (*end != 0 || errno != 0 || number < least || number > most)
      throw std::runtime_error(std::string(name) + " is '" + value +
                               "'; write a whole number from " + std::to_string(least) + " to " +
                               std::to_string(most));
    return number;
  }
  bool flag(std::string_view name, bool fallback) {
    const std::string value = text(name, fallback ? "true" : "false");
    if (value != "true" && value != "false")
      throw std::runtime_error(std::string(name) + " is '" + value + "'; write true or false");
    return value == "true";
  }

  void refuse_unknown() const {
    for (const bf_step_parameter& one : std::span(setup_.parameter, setup_.parameters)) {
      if (known_.contains(one.name)) continue;
      std::string names;
      for (const std::string& name : known_) names += (names.empty() ? "" : ", ") + name;
      throw std::runtime_error("there is no parameter '" + std::string(one.name) + "'; there is " +
                               (names.empty() ? "none" : names));
    }
  }

 private:
  const bf_step_setup& setup_;
  std::set<std::string, std::less<>> known_;
};

// The only chance a random step has: a counter that starts at the sample's seed.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : state_(seed) {}

  std::uint64_t draw() {
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z ^= z >> 30;
    z *= 0xbf58476d1ce4e5b9;
    z ^= z >> 27;
    z *= 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // REQUIRES: n > 0. An integer in [0, n).
  std::uint64_t below(std::uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(draw()) * n) >> 64);
  }
  // In [0, 1).
  double unit() { return static_cast<double>(draw() >> 11) * 0x1.0p-53; }

 private:
  std::uint64_t state_;
};

class Input {
 public:
  Input(const bf_step_sample& sample, std::size_t dimensions)
      : sample_(sample), shape_(sample.input_shape, dimensions) {}

  std::span<const std::uint64_t> shape() const { return shape_; }
  template <class T>
  std::span<const T> values() const {
    return {static_cast<const T*>(sample_.input), sample_.input_bytes / sizeof(T)};
  }

 private:
  const bf_step_sample& sample_;
  std::span<const std::uint64_t> shape_;
};

class Output {
 public:
  explicit Output(bf_step_sample& sample) : sample_(sample) {}

  // All there is room for.
  template <class T>
  std::span<T> values() const {
    return {static_cast<T*>(sample_.output), sample_.output_bytes / sizeof(T)};
  }
  // Of a ragged one.
  void set_rows(std::uint64_t rows) { sample_.output_rows = rows; }

 private:
  bf_step_sample& sample_;
};

// ---------------------------------------------------------------- what BATCHFLOW_STEP stands on --

enum class Chance : std::uint32_t { deterministic = 0, random = 1 };

template <class UserStep>
struct Adapter {
  UserStep step;
  std::size_t dimensions;

  static void say(char* problem, const char* why) {
    std::snprintf(problem, BF_STEP_PROBLEM_BYTES, "%s", why);
  }

  // Calls `work`; whatever it throws is said.
  template <class Work>
  static int guarded(char* problem, const Work& work) {
    try {
      work();
      return BF_STEP_DONE;
    } catch (const std::bad_alloc&) {
      say(problem, "out of memory; give the steps more (steps: memory: of the node file)");
    } catch (const std::exception& error) {
      say(problem, error.what());
    } catch (...) {
      say(problem, "it threw something that is no std::exception");
    }
    return BF_STEP_CORRUPT;
  }

  static int create(const bf_step_setup* setup, bf_step_array* output, void** made) {
    return guarded(setup->problem, [&] {
      const bf_step_array& given = setup->input;
      const Array input{static_cast<Type>(given.type),
                        {given.shape, given.shape + given.dimensions},
                        given.ragged != 0,
                        given.name};
      Parameters parameters(*setup);
      auto* adapter = new Adapter{UserStep(parameters), given.dimensions};
      const Array result = adapter->step.output(input);
      parameters.refuse_unknown();
      if (result.shape.size() > BF_STEP_DIMENSIONS_MOST || result.name.size() > BF_STEP_NAME_MOST)
        throw std::runtime_error("its output has too many dimensions, or too long a name");
      output->type = static_cast<std::uint32_t>(result.type);
      output->dimensions = static_cast<std::uint32_t>(result.shape.size());
      for (std::size_t i = 0; i < result.shape.size(); ++i) output->shape[i] = result.shape[i];
      output->ragged = result.ragged ? 1 : 0;
      std::memcpy(output->name, result.name.data(), result.name.size());
      *made = adapter;
    });
  }

  static int run(void* made, bf_step_sample* sample) {
    return guarded(sample->problem, [&] {
      auto* adapter = static_cast<Adapter*>(made);
      Output output(*sample);
      Draws draws(sample->seed);
      adapter->step.run(Input(*sample, adapter->dimensions), output, draws);
    });
  }
};

}  // namespace batchflow::step

// Once in a plugin: CHANCE is `deterministic` or `random`. Raise VERSION with what the step does.
#define BATCHFLOW_STEP(CLASS, NAME, VERSION, CHANCE)                 \
  const bf_step_plugin bf_step_entry = {                             \
      sizeof(bf_step_plugin),                                        \
      BF_STEP_ABI_VERSION,                                           \
      BF_STEP_ABI_HASH,                                              \
      NAME,                                                          \
      VERSION,                                                       \
      static_cast<std::uint32_t>(::batchflow::step::Chance::CHANCE), \
      &::batchflow::step::Adapter<CLASS>::create,                    \
      &::batchflow::step::Adapter<CLASS>::run};
