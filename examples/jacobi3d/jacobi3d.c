/* The temperature in the ground below a mountain range, saved by Mainstay.
 *
 * All that has to do with saving is here, in main: open, protect, restore,
 * checkpoint, close. The grid is in grid.c, the physics in ground.c. */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mainstay_mpi.h>

#include "elevation.h"
#include "grid.h"
#include "ground.h"
#include "options.h"
#include "stop.h"

static void must(mainstay_status status, const char *doing)
{
    if (status != MAINSTAY_OK)
        stop("%s: %s", doing, mainstay_error_message());
}

/* A state that could not be saved is no reason to stop: the program's own is unharmed. */
static int tried(mainstay_status status, const char *doing, int rank)
{
    if (status == MAINSTAY_OK)
        return 0;
    fprintf(stderr, "jacobi3d: rank %d: %s: %s; going on\n", rank, doing, mainstay_error_message());
    return 1;
}

/* The block of this rank as a box in the whole field, and as the inside of its array with ghosts. */
typedef struct box {
    uint64_t shape[3], whole[3], start[3], stored[3], ghosts[3];
} box;

static box box_of(const grid *g)
{
    box b;
    for (int d = 0; d < 3; d++) {
        b.shape[d] = g->size[d];
        b.whole[d] = g->cells[d];
        b.start[d] = g->start[d];
        b.stored[d] = g->size[d] + 2;
        b.ghosts[d] = 1;
    }
    return b;
}

/* ANCHOR: from */
/* Begins from what lies in another space, however many ranks have saved it: each rank reads its block. */
static void begin_from(const grid *g, const char *path, uint64_t *step, double *field)
{
    box block = box_of(g);
    double *inside = allocate(grid_cells_inside(g), sizeof *inside);
    mainstay_reader *reader;
    uint64_t revision = 0;
    if (g->rank == 0) {
        must(mainstay_reader_open(path, 0, &reader), "open what to begin from");
        revision = mainstay_reader_revision(reader);
    }
    MPI_Bcast(&revision, 1, MPI_UINT64_T, 0, g->comm);
    if (g->rank != 0)
        must(mainstay_reader_open(path, revision, &reader), "open what to begin from");
    must(mainstay_reader_read(reader, 0, "step", 0, step, sizeof *step, NULL), "read the step");
    must(mainstay_reader_read_box(reader, "temperature", 3, block.shape, block.start, inside,
                                  grid_cells_inside(g) * sizeof *inside),
         "read the field");
    mainstay_reader_close(reader);
    grid_put_inside(g, field, inside);
    free(inside);
    if (g->rank == 0)
        printf("begun from revision %llu of %s at step %llu\n", (unsigned long long)revision, path,
               (unsigned long long)*step);
}
/* ANCHOR_END: from */

/* A checkpoint whose cost has not been printed yet. */
typedef struct saved {
    uint64_t revision, step; /* 0: none */
} saved;

/* Prints what a checkpoint cost this rank, once it is durable and that is known. */
static void print_cost(mainstay_session *session, saved *last, bool phases)
{
    mainstay_record r;
    if (last->revision == 0 || mainstay_last_record(session, &r) != MAINSTAY_OK ||
        r.revision != last->revision || r.durable_ns == 0)
        return;
    printf("checkpoint %llu of step %llu: t1 %.3f s, t2-t1 %.1f ms, t3-t1 %.1f ms\n",
           (unsigned long long)last->revision, (unsigned long long)last->step,
           (double)r.t1_unix_ns / 1e9, (double)r.perceived_ns / 1e6, (double)r.durable_ns / 1e6);
    if (phases)
        printf("  communication %.1f, buffer wait %.1f, copy %.1f, phase 3 %.1f, other %.1f ms; "
               "%llu bytes, %llu chunks, %llu writes\n",
               (double)r.communication_ns / 1e6, (double)r.buffer_wait_ns / 1e6,
               (double)r.copy_ns / 1e6, (double)r.resume_ns / 1e6, (double)r.other_ns / 1e6,
               (unsigned long long)r.bytes, (unsigned long long)r.chunks, (unsigned long long)r.writes);
    last->revision = 0;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    static char line[BUFSIZ]; /* of its own: else a line is written in pieces, and those of the ranks mix */
    setvbuf(stdout, line, _IOLBF, sizeof line); /* so that whoever follows the run sees it at once */

    options o;
    int ended = options_parse(&o, argc, argv, rank == 0);
    if (ended >= 0) {
        MPI_Finalize();
        return ended;
    }

    grid g = grid_create(MPI_COMM_WORLD, o.cells);
    elevation surface = elevation_read(g.comm, o.dem);
    ground rock = ground_create(&g, &surface);
    size_t cells = grid_cells_stored(&g);
    double *field = allocate(cells, sizeof *field), *other = allocate(cells, sizeof *other);
    ground_begin(&rock, &g, &surface, field);
    memcpy(other, field, cells * sizeof *field); /* its air, which no sweep writes */
    elevation_free(&surface);
    if (rank == 0)
        printf("grid %zu x %zu x %zu on %d x %d x %d ranks, %.1f MB a rank, %.1f years a step\n",
               g.cells[0], g.cells[1], g.cells[2], g.blocks[0], g.blocks[1], g.blocks[2],
               (double)cells * sizeof *field / 1e6, rock.sweep_years);

    uint64_t step = 0;
    int failures = 0;
    saved last = {0, 0};
    mainstay_session *session = NULL;
    if (o.space) {
        mainstay_options wanted = MAINSTAY_OPTIONS_INIT;
        wanted.keep = o.keep;
        wanted.every_steps = o.every;
        wanted.pool_bytes = o.pool_bytes;
        wanted.stage = o.stage;
        must(mainstay_open_mpi(g.comm, o.space, &wanted, &session), "open the space");
        if (o.timeline && rank == 0)
            printf("opened %s\n", o.space);

        box block = box_of(&g);
        /* ANCHOR: box */
        must(mainstay_protect_array(session, "step", &step, MAINSTAY_U64, 0, NULL), "protect the step");
        /* Without its ghosts, so that any number of ranks can share it out. */
        must(mainstay_protect_within(session, "temperature", field, MAINSTAY_F64, 3, block.shape, block.stored,
                                     block.ghosts, block.whole, block.start),
             "protect the field");
        /* ANCHOR_END: box */
        /* ANCHOR: follow */
        /* What the pointer points to then: each step swaps it with the other. */
        must(mainstay_follow(session, "temperature", (void **)&field), "follow the field");
        /* ANCHOR_END: follow */

        mainstay_restored restored = {0};
        must(mainstay_restore(session, &restored), "restore");
        if (restored.skipped && rank == 0)
            printf("newer revisions are damaged: %s\n", mainstay_report(session));
        if (!restored.revision && o.from)
            begin_from(&g, o.from, &step, field);
        if (restored.revision && rank == 0)
            printf("restored revision %llu, continuing at step %llu\n",
                   (unsigned long long)restored.revision, (unsigned long long)step);
    }
    if (o.first)
        grid_write(&g, field, o.first);

    while (step < o.steps) {
        ground_sweep(&rock, &g, field, other);
        double *swept = other;
        other = field;
        field = swept;
        step++;
        if (rank == 0 && step % o.progress == 0)
            printf("step %llu\n", (unsigned long long)step);

        int due = 0;
        if (session)
            must(mainstay_due(session, step, &due), "ask whether a checkpoint is due");
        if (due) {
            uint64_t revision = 0;
            failures += tried(mainstay_checkpoint(session, &revision), "checkpoint", rank);
            if (rank == 0)
                print_cost(session, &last, o.timeline); /* if this one had to wait for the last */
            last = (saved){revision, step};
        }
        if (session && rank == 0)
            print_cost(session, &last, o.timeline);
    }

    if (session) {
        failures += tried(mainstay_wait(session), "wait", rank);
        if (rank == 0)
            print_cost(session, &last, o.timeline);
        failures += tried(mainstay_close(session), "close", rank);
    }
    if (o.out)
        grid_write(&g, field, o.out);
    if (rank == 0)
        printf("done: %llu steps, %.0f years\n", (unsigned long long)step,
               rock.sweep_years * (double)step);

    free(field);
    free(other);
    ground_free(&rock);
    grid_free(&g);
    MPI_Finalize();
    return failures ? 3 : 0;
}
