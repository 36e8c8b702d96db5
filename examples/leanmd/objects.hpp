/* The two kinds of objects: cells have atoms, pairs of cells compute the forces between them. */
#ifndef LEANMD_OBJECTS_HPP
#define LEANMD_OBJECTS_HPP

#include <algorithm>
#include <mainstay_objects_mpi.hpp>

#include "model.hpp"

struct cell;
struct pair;

/* Data that the objects of a rank share. */
struct world {
  model m;
  const mainstay::kind<cell> *cells = nullptr;
  const mainstay::kind<pair> *pairs = nullptr;
  bool counts = false;      /* work is counted in pairs of atoms, not measured */
  std::uint64_t tested = 0; /* pairs of atoms on this rank, since the program looked last */
};
inline world here;

/* Results over all cells. */
enum { ENERGY = 1, MARK = 2 };
enum { MOVE, ARRIVE, SHOW, FORCES, TELL };

inline std::uint64_t cell_index(const std::array<int, 3> &at) { return mainstay::index(at[0], at[1], at[2]); }
inline std::array<int, 3> place_of_cell(std::uint64_t index) {
  const std::uint64_t mask = (1 << 21) - 1;
  return {int(index >> 42 & mask), int(index >> 21 & mask), int(index & mask)};
}

/* The pair of a cell and its neighbour number 13 (itself) to 26 has the index of both; each pair has one. */
inline std::uint64_t pair_index(const std::array<int, 3> &at, int number) {
  const model &m = here.m;
  const auto low = number < 13 ? neighbour(at, number) : at;
  const int side = number < 13 ? 26 - number : number;
  return std::uint64_t((low[0] * m.cells[1] + low[1]) * m.cells[2] + low[2]) * 14 + std::uint64_t(side - 13);
}

struct cell {
  std::array<int, 3> at;
  std::vector<atom> atoms; /* by their ids */
  double potential = 0;

  explicit cell(std::uint64_t index) : at(place_of_cell(index)) {}
  /* Between two steps nothing else is worth saving. */
  void pup(mainstay::pup &p) { p | atoms | potential; }

  void receive(mainstay::objects &objects, std::uint32_t method, mainstay::contents data) {
    if (here.counts && (method == MOVE || method == SHOW)) objects.work(atoms.size());
    switch (method) {
    case MOVE:
      return move();
    case ARRIVE: {
      const auto came = data.get<std::vector<atom>>();
      atoms.insert(atoms.end(), came.begin(), came.end());
      return;
    }
    case SHOW:
      return show(data.get<bool>());
    case FORCES: {
      const auto number = data.get<int>();
      data >> came[number] >> energies[number];
      if (--awaited == 0) finish();
      return;
    }
    case TELL:
      return tell(objects);
    }
  }

private:
  /* Forces of each neighbour, in any order. */
  std::array<std::vector<vec>, 27> came;
  std::array<double, 27> energies = {};
  int awaited = 0;
  bool kicks = false;

  /* The first half of a step; atoms that leave go to the neighbour where they are now. */
  void move() {
    const model &m = here.m;
    std::array<std::vector<atom>, 27> leaving;
    std::vector<atom> staying;
    for (atom &a : atoms) {
      for (int axis = 0; axis < 3; axis++) {
        a.velocity[axis] += 0.5 * m.dt * a.force[axis];
        a.position[axis] += m.dt * a.velocity[axis];
        const double side = m.side(axis);
        if (a.position[axis] < 0) a.position[axis] = -a.position[axis], a.velocity[axis] = -a.velocity[axis];
        if (a.position[axis] > side)
          a.position[axis] = 2 * side - a.position[axis], a.velocity[axis] = -a.velocity[axis];
      }
      const auto now = m.cell_of(a.position);
      int number = 0;
      for (int axis = 0; axis < 3; axis++) {
        const int way = now[axis] - at[axis];
        if (way < -1 || way > 1)
          throw std::runtime_error("an atom has left for a cell that is no neighbour: take a smaller dt");
        number = 3 * number + way + 1;
      }
      (number == 13 ? staying : leaving[number]).push_back(a);
    }
    atoms.swap(staying);
    for (int number = 0; number < 27; number++)
      if (!leaving[number].empty())
        here.cells->send(cell_index(neighbour(at, number)), ARRIVE, mainstay::parcel() << leaving[number]);
  }

  /* The second half: all pairs of this cell get to know where its atoms are. */
  void show(bool completes) {
    std::sort(atoms.begin(), atoms.end(), [](const atom &a, const atom &b) { return a.id < b.id; });
    std::vector<vec> positions;
    for (const atom &a : atoms) positions.push_back(a.position);
    kicks = completes;
    for (int number = 0; number < 27; number++) {
      if (!here.m.has(neighbour(at, number))) continue;
      awaited++;
      here.pairs->send(pair_index(at, number), SHOW, mainstay::parcel() << number << positions);
    }
  }

  /* Adds the forces up, always in the same order. */
  void finish() {
    for (atom &a : atoms) a.force = {0, 0, 0};
    potential = 0;
    for (int number = 0; number < 27; number++) {
      for (std::size_t i = 0; i < came[number].size(); i++)
        for (int axis = 0; axis < 3; axis++) atoms[i].force[axis] += came[number][i][axis];
      if (number >= 13 && here.m.has(neighbour(at, number))) potential += energies[number];
      came[number].clear();
    }
    if (kicks)
      for (atom &a : atoms)
        for (int axis = 0; axis < 3; axis++) a.velocity[axis] += 0.5 * here.m.dt * a.force[axis];
  }

  /* The energy, and a mark of every bit of the state. */
  void tell(mainstay::objects &objects) {
    double kinetic = 0;
    std::uint64_t mark = 0xcbf29ce484222325;
    for (const atom &a : atoms) {
      for (const vec *v : {&a.position, &a.velocity})
        for (const double x : *v) {
          std::uint64_t bits;
          std::memcpy(&bits, &x, sizeof bits);
          mark = (mark ^ bits ^ a.id) * 0x100000001b3, mark ^= mark >> 29;
        }
      for (const double v : a.velocity) kinetic += 0.5 * v * v;
    }
    objects.contribute(ENERGY, {potential, kinetic, double(atoms.size())});
    objects.contribute(
        MARK, {double(mark & 0xffff), double(mark >> 16 & 0xffff), double(mark >> 32 & 0xffff), double(mark >> 48)});
  }
};

/* ANCHOR: pair */
struct pair {
  std::array<int, 3> at; /* of the lower cell */
  int number;            /* of the other, as its neighbour */

  explicit pair(std::uint64_t index) : number(int(index % 14) + 13) {
    const model &m = here.m;
    const int low = int(index / 14);
    at = {low / (m.cells[1] * m.cells[2]), low / m.cells[2] % m.cells[1], low % m.cells[2]};
  }
  void pup(mainstay::pup &) {} /* between two steps it has nothing */

  void receive(mainstay::objects &objects, std::uint32_t, mainstay::contents data) {
    const bool is_other = data.get<int>() < 13;
    data >> (is_other ? other : own);
    (is_other ? has_other : has_own) = true;
    if (number == 13) {
      std::vector<vec> forces(own.size(), vec{0, 0, 0}), same = forces;
      const double energy = interact(here.m, own, own, true, forces, same);
      for (std::size_t i = 0; i < own.size(); i++)
        for (int axis = 0; axis < 3; axis++) forces[i][axis] += same[i][axis];
      done(objects, own.size() * own.size() / 2);
      here.cells->send(cell_index(at), FORCES, mainstay::parcel() << 13 << forces << energy);
    } else if (has_own && has_other) {
      std::vector<vec> on_own(own.size(), vec{0, 0, 0}), on_other(other.size(), vec{0, 0, 0});
      const double energy = interact(here.m, own, other, false, on_own, on_other);
      done(objects, own.size() * other.size());
      here.cells->send(cell_index(at), FORCES, mainstay::parcel() << number << on_own << energy);
      here.cells->send(cell_index(neighbour(at, number)), FORCES,
                       mainstay::parcel() << 26 - number << on_other << energy);
    }
  }

private:
  std::vector<vec> own, other;
  bool has_own = false, has_other = false;

  void done(mainstay::objects &objects, std::uint64_t tests) {
    here.tested += tests;
    if (here.counts) objects.work(tests);
    has_own = has_other = false;
  }
};
/* ANCHOR_END: pair */

#endif
