// Of bytes, the numbers that stand in them: ragged in, ragged out.
#include <cstdint>
#include <stdexcept>

#include "batchflow_step.hpp"

namespace step = batchflow::step;

class Words {
 public:
  explicit Words(step::Parameters& parameters)
      : columns_(static_cast<std::uint64_t>(parameters.integer("columns", 1, 1, 8))),
        lies_(parameters.flag("lies", false)) {}
  step::Array output(const step::Array& input) const {
    if (!input.ragged || input.type != step::Type::u8) throw std::runtime_error("it takes bytes");
    return {step::Type::i32, {input.shape[0], columns_}, true, "numbers"};
  }
  void run(const step::Input& in, step::Output& out, step::Draws&) const {
    std::uint64_t rows = 0;
    std::int32_t number = -1;
    const auto end = [&] {
      if (number < 0) return;
      for (std::uint64_t c = 0; c < columns_; ++c)
        out.values<std::int32_t>()[rows * columns_ + c] = number;
      ++rows;
      number = -1;
    };
    for (const char c : in.values<char>()) {
      if (c >= '0' && c <= '9')
        number = (number < 0 ? 0 : number * 10) + (c - '0');
      else if (c == ' ')
        end();
      else
        throw std::runtime_error("a letter where a digit should be");
    }
    end();
    out.set_rows(lies_ ? UINT64_MAX : rows);
  }

 private:
  std::uint64_t columns_;
  bool lies_;
};
BATCHFLOW_STEP(Words, "words", "2", deterministic)
