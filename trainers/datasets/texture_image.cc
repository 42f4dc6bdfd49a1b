#include "trainers/datasets/texture_image.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "framework/base/philox.h"
#include "trainers/datasets/cifar10.h"

namespace belfry::data {
namespace {

constexpr int kEdge = kCifar10Edge;
constexpr int kSamples = 2;  // per edge of a pixel

struct Vector {
  double x = 0, y = 0;
};

double Dot(Vector a, Vector b) { return a.x * b.x + a.y * b.y; }

struct Colour {
  double r = 0, g = 0, b = 0;
};

Colour Mix(Colour a, Colour b, double t) {
  return {a.r + (b.r - a.r) * t, a.g + (b.g - a.g) * t, a.b + (b.b - a.b) * t};
}

double Distance(Colour a, Colour b) { return std::abs(a.r - b.r) + std::abs(a.g - b.g) + std::abs(a.b - b.b); }

enum class Outline { kDisc, kSquare, kTriangle, kCross, kRing };

// True if `p` lies inside the outline; `p` is in units of the outline's radius, y pointing up.
bool Inside(Outline outline, Vector p) {
  const double square = Dot(p, p), x = std::abs(p.x), y = std::abs(p.y);
  switch (outline) {
    case Outline::kDisc: return square < 0.85;
    case Outline::kSquare: return std::max(x, y) < 0.82;
    case Outline::kTriangle: return p.y > -0.75 && 1.75 * x + p.y < 1.0;
    case Outline::kCross: return std::max(x, y) < 1.0 && std::min(x, y) < 0.36;
    case Outline::kRing: return square < 1.0 && square > 0.25;
  }
  return false;
}

struct Speck {
  Vector centre;
  double half_width = 0, half_height = 0;
  Colour colour;
};

struct Scene {
  Outline outline;
  bool checkered;
  Vector centre, right;  // `right` is the unit vector along the shape's own x axis
  double radius;
  Vector across;       // unit vector across the stripes
  double period;       // in pixels; one band of each colour
  Vector phase;        // in periods
  Colour light, dark;  // of the pattern
  Colour near, far;    // of the background, along `slope`
  Vector slope;
  Speck specks[5];
  double noise;
};

class Painter {
 public:
  Painter(uint64_t key, int64_t index) : random_(key, static_cast<uint64_t>(index)) {}

  double Between(double low, double high) { return low + (high - low) * static_cast<double>(random_.NextFloat()); }

  // A unit vector within about 45 degrees * `spread` of the x axis. Uses the circle's rational points, so that the
  // result is exactly reproducible; sine and cosine are not.
  Vector Tilted(double spread) {
    const double t = Between(-0.41421356, 0.41421356) * spread, norm = 1 + t * t;
    return {(1 - t * t) / norm, 2 * t / norm};
  }

  Vector AnyDirection() {
    const Vector tilted = Tilted(1);
    return random_.NextBelow(2) == 0 ? tilted : Vector{-tilted.y, tilted.x};
  }

  Colour AnyColour() { return {Between(20, 235), Between(20, 235), Between(20, 235)}; }

  // A colour at least `distance` from both others.
  Colour ColourUnlike(Colour a, Colour b, double distance) {
    Colour colour = AnyColour();
    while (Distance(colour, a) < distance || Distance(colour, b) < distance) colour = AnyColour();
    return colour;
  }

  Scene Compose(int label) {
    Scene scene;
    scene.outline = static_cast<Outline>(label / 2);
    scene.checkered = label % 2 == 1;
    scene.centre = {Between(14, 18), Between(14, 18)};
    scene.radius = Between(8.5, 11.5);
    scene.right = Tilted(0.5);
    scene.across = AnyDirection();
    scene.period = Between(4.5, 6);
    scene.phase = {Between(0, 1), Between(0, 1)};
    scene.near = AnyColour();
    scene.far = Mix(scene.near, AnyColour(), 0.3);
    scene.slope = AnyDirection();
    scene.light = ColourUnlike(scene.near, scene.far, 150);
    const Colour ground = Mix(scene.near, scene.far, 0.5);
    scene.dark = ColourUnlike(scene.light, ground, 180);
    for (Speck& speck : scene.specks) {
      speck.centre = {Between(0, kEdge), Between(0, kEdge)};
      speck.half_width = Between(0.5, 2);
      speck.half_height = Between(0.5, 2);
      speck.colour = AnyColour();
    }
    scene.noise = Between(4, 20);
    return scene;
  }

  // The sum of two uniform numbers: triangular distribution on [-amplitude, amplitude].
  double Noise(double amplitude) {
    if (left_ == 0) {
      bits_ = random_.Next();
      left_ = 2;
    }
    const auto sum = static_cast<double>((bits_ & 255) + (bits_ >> 8 & 255));
    bits_ >>= 16;
    --left_;
    return (sum - 255) / 255 * amplitude;
  }

 private:
  PhiloxStream random_;
  uint32_t bits_ = 0;
  int left_ = 0;
};

// True if `position`, in periods, lies in the first half of its period.
bool FirstHalf(double position) { return position - std::floor(position) < 0.5; }

Colour PatternAt(const Scene& scene, Vector from_centre) {
  const Vector along = {-scene.across.y, scene.across.x};
  bool light = FirstHalf(Dot(from_centre, scene.across) / scene.period + scene.phase.x);
  if (scene.checkered) light ^= FirstHalf(Dot(from_centre, along) / scene.period + scene.phase.y);
  return light ? scene.light : scene.dark;
}

Colour ColourAt(const Scene& scene, Vector p) {
  const Vector from_centre = {p.x - scene.centre.x, p.y - scene.centre.y};
  const Vector up = {scene.right.y, -scene.right.x};
  const Vector own = {Dot(from_centre, scene.right) / scene.radius, Dot(from_centre, up) / scene.radius};
  if (Inside(scene.outline, own)) return PatternAt(scene, from_centre);
  for (const Speck& speck : scene.specks) {
    if (std::abs(p.x - speck.centre.x) < speck.half_width && std::abs(p.y - speck.centre.y) < speck.half_height) {
      return speck.colour;
    }
  }
  const Vector from_middle = {p.x / kEdge - 0.5, p.y / kEdge - 0.5};
  return Mix(scene.near, scene.far, 0.5 + 0.7 * Dot(from_middle, scene.slope));
}

uint8_t ToByte(double value) { return static_cast<uint8_t>(std::clamp(value, 0.0, 255.0) + 0.5); }

}  // namespace

void DrawTextureImage(uint64_t key, int64_t index, int label, uint8_t* planes) {
  Painter painter(key, index);
  const Scene scene = painter.Compose(label);
  for (int y = 0; y < kEdge; ++y) {
    for (int x = 0; x < kEdge; ++x) {
      Colour sum;
      for (int s = 0; s < kSamples * kSamples; ++s) {
        const Vector p = {x + (s % kSamples + 0.5) / kSamples, y + (s / kSamples + 0.5) / kSamples};
        const Colour colour = ColourAt(scene, p);
        sum = {sum.r + colour.r, sum.g + colour.g, sum.b + colour.b};
      }
      constexpr double kWeight = 1.0 / (kSamples * kSamples);
      uint8_t* pixel = planes + y * kEdge + x;
      pixel[0] = ToByte(sum.r * kWeight + painter.Noise(scene.noise));
      pixel[kEdge * kEdge] = ToByte(sum.g * kWeight + painter.Noise(scene.noise));
      pixel[2 * kEdge * kEdge] = ToByte(sum.b * kWeight + painter.Noise(scene.noise));
    }
  }
}

}  // namespace belfry::data
