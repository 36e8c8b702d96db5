/* Settings of a session, as variables of the environment. */
#ifndef VARIABLES_H
#define VARIABLES_H

/* pool_bytes=1,stage=node: MAINSTAY_POOL_BYTES and MAINSTAY_STAGE, set or taken back. */
void variables_set(const char *settings);
void variables_unset(const char *settings);

#endif
