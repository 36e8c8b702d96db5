/* The space, its cells, and the forces between atoms; in units of the Lennard-Jones potential. */
#ifndef LEANMD_MODEL_HPP
#define LEANMD_MODEL_HPP

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

using vec = std::array<double, 3>;

struct model {
  std::array<int, 3> cells = {7, 10, 10};
  std::uint64_t atoms = 92224; /* those of ApoA1 */
  double density = 0.7, temperature = 1.0, cutoff = 2.5, dt = 0.002;
  double edge = 0; /* of a cell */

  void settle() {
    edge = std::cbrt(double(atoms) / (double(count()) * density));
    cutoff = std::min(cutoff, edge);
  }
  int count() const { return cells[0] * cells[1] * cells[2]; }
  double side(int axis) const { return edge * cells[axis]; }
  bool has(const std::array<int, 3> &at) const {
    for (int axis = 0; axis < 3; axis++)
      if (at[axis] < 0 || at[axis] >= cells[axis]) return false;
    return true;
  }
  std::array<int, 3> cell_of(const vec &position) const {
    std::array<int, 3> at;
    for (int axis = 0; axis < 3; axis++) at[axis] = std::min(cells[axis] - 1, std::max(0, int(position[axis] / edge)));
    return at;
  }
};

/* The 27 neighbours of a cell, itself among them; number 13 + d and 13 - d are opposite. */
inline std::array<int, 3> neighbour(const std::array<int, 3> &at, int number) {
  return {at[0] + number / 9 - 1, at[1] + number / 3 % 3 - 1, at[2] + number % 3 - 1};
}

/* A number that looks like chance, and is the same for the same atom. */
inline double chance(std::uint64_t seed) {
  seed += 0x9e3779b97f4a7c15;
  seed = (seed ^ seed >> 30) * 0xbf58476d1ce4e5b9;
  seed = (seed ^ seed >> 27) * 0x94d049bb133111eb;
  return double((seed ^ seed >> 31) >> 11) * 0x1p-53;
}

struct atom {
  std::uint64_t id;
  vec position, velocity, force;
};

/* Atom number `id`: on a lattice that fills the box, of which some sites are left out evenly. */
inline atom lattice_atom(const model &m, std::uint64_t id) {
  const double spacing = std::cbrt(m.side(0) * m.side(1) * m.side(2) / double(m.atoms));
  std::array<std::uint64_t, 3> sites;
  for (int axis = 0; axis < 3; axis++) sites[axis] = std::uint64_t(std::ceil(m.side(axis) / spacing));
  const std::uint64_t all = sites[0] * sites[1] * sites[2];
  const std::uint64_t site = std::uint64_t(double(id) * double(all) / double(m.atoms));
  const std::array<std::uint64_t, 3> at = {site / (sites[1] * sites[2]), site / sites[2] % sites[1], site % sites[2]};
  atom a = {id, {}, {}, {}};
  for (int axis = 0; axis < 3; axis++) {
    a.position[axis] = (double(at[axis]) + 0.5) * m.side(axis) / double(sites[axis]);
    a.velocity[axis] = std::sqrt(12 * m.temperature) * (chance(3 * id + std::uint64_t(axis)) - 0.5);
  }
  return a;
}

/* Adds the forces between two sets of atoms, or within one, to both; returns the energy. The force goes to zero at the
 * cutoff (shifted force), so that energy is conserved. Always the same order of operations. */
inline double interact(const model &m, const std::vector<vec> &a, const std::vector<vec> &b, bool same,
                       std::vector<vec> &on_a, std::vector<vec> &on_b) {
  const double cutoff2 = m.cutoff * m.cutoff, c6 = 1 / (cutoff2 * cutoff2 * cutoff2);
  const double slope = (48 * c6 * c6 - 24 * c6) / m.cutoff, level = 4 * (c6 * c6 - c6);
  double energy = 0;
  for (std::size_t i = 0; i < a.size(); i++)
    for (std::size_t j = same ? i + 1 : 0; j < b.size(); j++) {
      const double x = a[i][0] - b[j][0], y = a[i][1] - b[j][1], z = a[i][2] - b[j][2];
      const double r2 = x * x + y * y + z * z;
      if (r2 >= cutoff2) continue;
      const double r = std::sqrt(r2), s6 = 1 / (r2 * r2 * r2);
      const double strength = (48 * s6 * s6 - 24 * s6) / r2 - slope / r;
      energy += 4 * (s6 * s6 - s6) - level + (r - m.cutoff) * slope;
      on_a[i][0] += strength * x, on_a[i][1] += strength * y, on_a[i][2] += strength * z;
      on_b[j][0] -= strength * x, on_b[j][1] -= strength * y, on_b[j][2] -= strength * z;
    }
  return energy;
}

#endif
