/* Constants of VeloC. Licence: MIT OR Apache-2.0. */
#ifndef MAINSTAY_VELOC_DEFS_H
#define MAINSTAY_VELOC_DEFS_H

#define VELOC_SUCCESS (0)
#define VELOC_FAILURE (-1)

/* Bytes of a path that VELOC_Route_file returns, with the zero at its end. */
#define VELOC_MAX_NAME (1024)

/* Regions that a call saves or recovers: all, those in a list, or all others. */
#define VELOC_CKPT_ALL (0)
#define VELOC_CKPT_SOME (1)
#define VELOC_CKPT_REST (2)
#define VELOC_RECOVER_ALL (0)
#define VELOC_RECOVER_SOME (1)
#define VELOC_RECOVER_REST (2)

/* An event of VeloC's interface for C++, which Mainstay does not have. */
#define VELOC_OBSERVE_CKPT_END (0)

#endif
