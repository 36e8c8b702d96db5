/* clang-format off */
/* The protocol between the preload library and the helper of the node. Licence: MIT OR Apache-2.0.
 *
 * The library redirects names. It asks the helper at each call with a matching name, and the helper alone decides
 * which file a name stands for. Each request is a connection of its own (AF_UNIX, SOCK_SEQPACKET) to STAGE/socket: one message to
 * the helper, one message back. So the program keeps no descriptor of Mainstay's, and fork and exec need no care. The
 * helper knows the process by its credentials (SO_PEERCRED), and watches its end.
 *
 * A message is a list of fields, each ended by a NUL byte. The first is the verb. FILE stands for four fields: the
 * folder (absolute path), its device and its inode in decimal, and the name in it.
 *
 * verb      fields                 answer
 * write     FILE HOW OPTIONS       stage | base | error | plain      opens FILE to write
 * share     FILE HOW OPTIONS       stage | error | plain             makes FILE for the ranks of several nodes
 * shared    ID END                 ok                                the end of such a file: whole, failed, unused
 * change    FILE OPTIONS WHY       stage | error                     the first change through a descriptor of `base`; WHY is
 *                                                                    lock if it is an exclusive lock, else write
 * read      FILE OPTIONS           at | instead | published | error  opens FILE to read
 * look      FILE                   at | published                    stat, access and the like
 * settle    FILE WHY               at | published | error            before chmod, utimes, truncate by name; WHY is a
 *                                                                    before an open to append
 * rename    FILE FILE FLAGS OPTIONS   ok | error                     renameat2, in order with their publication
 * rename-folder FILE FILE FLAGS OPTIONS  ok | error                 the same of a folder, after the files in it
 * link      FILE FILE              ok | error
 * unlink    FILE                   ok | error
 * list      FILE                   ok           before a folder is listed; FILE is .mainstay in it
 * remove-folder FILE               ok | error   the same, for rmdir of a folder that the kernel finds not empty
 * hold      ID...                  ok           this process has one more descriptor of each
 * holding   ID...                  ok           these are all the descriptors of this process, after exec
 * closed    ID SYNCED MAPPED       ok | error   one descriptor less; SYNCED is 1 if the program synced the file, MAPPED is
 *                                               1 if this process has mapped any file: it may still write the file
 * mapped    ID                     ok           this process, a fork, may have mappings of it
 * unmapped  ID                     ok           this process has unmapped a part of it
 * uncaught PATH                    ok | plain   this process starts a program that cannot load the library; plain: a
 *                                               line has named it before
 * left      STATUS                 ok           this process exits
 * ends      PID                    ok           this process is about to end PID by a signal
 * member    JOB                    ok           `mainstay files` has started
 * open-of   MEMBER                 ok 0 TEXT... files that programs of this `mainstay files` have open
 * finish    JOB END                ok TEXT...   its program has ended, END is failed if so; TEXT: files that are not whole
 *
 * `mainstay files --catch kernel` answers calls of programs without the library. It holds each new file itself, and sends:
 *
 * given   ID PID       ok    the process PID has the asker's descriptor of ID, and sends nothing itself
 * inherits ID PID      ok    PID is such a process, a child that has inherited the file
 * dropped ID           ok    no process got the asker's descriptor
 * lost    ID           ok    an unknown process may have ID open, so ID is never whole
 * leaves  PID STATUS   ok    PID is about to exit with STATUS
 *
 * HOW is a set of letters: t O_TRUNC, c O_CREAT, x O_EXCL, n the file must be writable at once (no `base`), s the open
 * is part of MPI_File_open by ranks of several nodes.
 *
 * The first rank sends `share` before it opens the file, and counts as a holder until it sends `shared`: whole once all
 * ranks have closed the file, unused if no rank could open it. Any rank sends failed if its close fails.
 *
 * given-up ID             ok        one descriptor less of a file that is neither whole nor torn: a rank in a slot has
 * it open, and goes on elsewhere. The file goes once no process has it open
 *
 * answer
 * stage ID PATH STATE     open PATH to write. STATE is new (an empty file, or a copy of the old one) or joined (another
 *                         descriptor has it open to write). The library adds O_TRUNC if the program asked for it
 * base PATH DEVICE INODE  open PATH to read only. At its first change send `change`, and exchange the descriptor
 * at PATH DEVICE INODE    the file is there now. It will have this device and inode under its name; 0 0: nobody knows yet
 * instead PATH TEXT       the newest generation is damaged, PATH is an older one. Print TEXT
 * published               the name itself is the file
 * plain TEXT              go on without the helper. Print TEXT if it is not empty
 * ok
 * error ERRNO TEXT        fail with ERRNO. Print TEXT if it is not empty
 */
/* clang-format on */
#ifndef MAINSTAY_FILES_PROTOCOL_H
#define MAINSTAY_FILES_PROTOCOL_H

/* A message is at most this long. */
enum { MESSAGE_MAX = 16 << 10 };
/* Variables of the environment, set by `mainstay files`. A program that is started without one gets it back, unless its
 * MAINSTAY_FILES_MATCH is empty. */
#define STAGE_VARIABLE "MAINSTAY_FILES_STAGE"     /* the folder of the stage; without it the library does nothing */
#define MATCH_VARIABLE "MAINSTAY_FILES_MATCH"     /* patterns, one a line */
#define EXCLUDE_VARIABLE "MAINSTAY_FILES_EXCLUDE" /* patterns, one a line */
#define OPTIONS_VARIABLE "MAINSTAY_FILES_OPTIONS" /* passed on as OPTIONS */
#define COMMAND_VARIABLE                                                                                               \
  "MAINSTAY_FILES_COMMAND" /* the path of `mainstay`; `mainstay files-helper STAGE` starts a helper */

#endif
