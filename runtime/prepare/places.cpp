#include "runtime/prepare/places.h"

#include <algorithm>
#include <array>

#include "runtime/prepare/joint_fields.h"

namespace batchflow::prepare {
namespace {

// From the source to the result, where the matrix of a warp leads from the result to the source.
WarpMatrix forwards(const WarpMatrix& m) {
  const double determinant = m[0] * m[4] - m[1] * m[3];
  const double a = m[4] / determinant, b = -m[1] / determinant, c = -m[3] / determinant,
               d = m[0] / determinant;
  return {a, b, -(a * m[2] + b * m[5]), c, d, -(c * m[2] + d * m[5])};
}

struct Point {
  float x, y;
};

Point moved(const WarpMatrix& m, Point p) {
  return {static_cast<float>(m[0] * p.x + m[1] * p.y + m[2]),
          static_cast<float>(m[3] * p.x + m[4] * p.y + m[5])};
}

class Boxes {
 public:
  Boxes(std::span<float> boxes, Extent2 extent) : boxes_(boxes) { clip(extent); }

  void crop(const Box& part) {
    const auto x = static_cast<float>(part.x), y = static_cast<float>(part.y);
    each([&](float* box) {
      box[0] -= x;
      box[1] -= y;
      box[2] -= x;
      box[3] -= y;
    });
    clip(part.extent());
  }
  void scale(float across, float down) {
    each([&](float* box) {
      box[0] *= across;
      box[1] *= down;
      box[2] *= across;
      box[3] *= down;
    });
  }
  void mirror(int first, int side) {
    const auto most = static_cast<float>(side);
    each([&](float* box) {
      const float before = box[first];
      box[first] = most - box[first + 2];
      box[first + 2] = most - before;
    });
  }
  void mirror_across(int width) { mirror(0, width); }
  void mirror_down(int height) { mirror(1, height); }
  void warp(const WarpMatrix& m, Extent2 extent) {
    each([&](float* box) {
      const std::array<Point, 4> corners = {moved(m, {box[0], box[1]}), moved(m, {box[2], box[1]}),
                                            moved(m, {box[2], box[3]}), moved(m, {box[0], box[3]})};
      const auto [left, right] =
          std::minmax({corners[0].x, corners[1].x, corners[2].x, corners[3].x});
      const auto [upper, lower] =
          std::minmax({corners[0].y, corners[1].y, corners[2].y, corners[3].y});
      box[0] = left;
      box[1] = upper;
      box[2] = right;
      box[3] = lower;
    });
    clip(extent);
  }

 private:
  template <class Use>
  void each(Use&& use) {
    for (std::size_t at = 0; at + 4 <= boxes_.size(); at += 4) use(boxes_.data() + at);
  }
  void clip(Extent2 extent) {
    const auto width = static_cast<float>(extent.width), height = static_cast<float>(extent.height);
    each([&](float* box) {
      box[0] = std::clamp(box[0], 0.0f, width);
      box[1] = std::clamp(box[1], 0.0f, height);
      box[2] = std::clamp(box[2], 0.0f, width);
      box[3] = std::clamp(box[3], 0.0f, height);
    });
  }

  std::span<float> boxes_;
};

class Points {
 public:
  Points(std::span<float> points, std::size_t each) : points_(points), each_(each) {}

  void crop(const Box& part) {
    each([&](Point p) {
      return Point{p.x - static_cast<float>(part.x), p.y - static_cast<float>(part.y)};
    });
  }
  void scale(float across, float down) {
    each([&](Point p) { return Point{p.x * across, p.y * down}; });
  }
  void mirror_across(int width) {
    each([&](Point p) { return Point{static_cast<float>(width - 1) - p.x, p.y}; });
  }
  void mirror_down(int height) {
    each([&](Point p) { return Point{p.x, static_cast<float>(height - 1) - p.y}; });
  }
  void warp(const WarpMatrix& m, Extent2) {
    each([&](Point p) { return moved(m, p); });
  }

 private:
  template <class Use>
  void each(Use&& use) {
    for (std::size_t at = 0; at + each_ <= points_.size(); at += each_) {
      const Point to = use(Point{points_[at], points_[at + 1]});
      points_[at] = to.x;
      points_[at + 1] = to.y;
    }
  }

  std::span<float> points_;
  std::size_t each_;
};

template <class Places>
void move(std::span<const Operation> operations, Extent2 extent, Places places) {
  const auto crop = [&](const Box& part) {
    if (part == whole(extent)) return;
    places.crop(part);
    extent = part.extent();
  };
  for (const Operation& operation : operations) {
    if (const auto* scaling = std::get_if<Scaling>(&operation)) {
      crop(scaling->from);
      if (scaling->to != extent)
        places.scale(static_cast<float>(static_cast<double>(scaling->to.width) / extent.width),
                     static_cast<float>(static_cast<double>(scaling->to.height) / extent.height));
      extent = scaling->to;
      crop(scaling->window);
      if (scaling->flip) places.mirror_across(extent.width);
      if (scaling->upside_down) places.mirror_down(extent.height);
    } else if (const auto* pad = std::get_if<Pad>(&operation)) {
      crop(pad->box);
    } else if (const auto* warp = std::get_if<Warp>(&operation)) {
      places.warp(forwards(warp->matrix), extent);
    }
  }
}

}  // namespace

void move_boxes(std::span<const Operation> operations, Extent2 picture, std::span<float> boxes) {
  move(operations, picture, Boxes(boxes, picture));
}

void move_points(std::span<const Operation> operations, Extent2 picture, std::size_t each,
                 std::span<float> points) {
  move(operations, picture, Points(points, each));
}

}  // namespace batchflow::prepare
