import { ConfigError, SyncError, messageOf } from '../../model/errors.ts';
import type { ErrorMessage } from './messages.ts';

interface KnownFault {
  code: string;
  hint: string;
}

/** Why an address cannot be listened on, by Node's own code. */
const LISTEN_FAULTS: Readonly<Record<string, KnownFault>> = {
  EADDRINUSE: { code: 'address_in_use', hint: 'another program listens there: end it, or set another serve.port' },
  EACCES: { code: 'address_refused', hint: 'this user may not listen there: set a serve.port of 1024 or more' },
  EADDRNOTAVAIL: { code: 'address_unknown', hint: 'set serve.host to an address of this machine' },
  ENOTFOUND: { code: 'address_unknown', hint: 'set serve.host to an address of this machine' },
};

/** An error as it goes from one thread to the other. */
export function errorMessage(error: unknown): ErrorMessage {
  const known = listenFault(error);
  const message = messageOf(error);
  if (known !== undefined) return { isConfig: true, ...known, message };
  if (error instanceof SyncError) {
    return { isConfig: error instanceof ConfigError, code: error.code, message, hint: error.hint };
  }
  return { isConfig: false, code: 'receiver_failed', message, hint: undefined };
}

/** The error that it was. */
export function errorOf({ isConfig, code, message, hint }: ErrorMessage): SyncError {
  if (isConfig) return new ConfigError(code, message, hint === undefined ? {} : { hint });
  return new SyncError(code, message, { recovery: 'stop', hint });
}

function listenFault(error: unknown): KnownFault | undefined {
  const code = error instanceof Error && 'code' in error && 'syscall' in error ? error.code : undefined;
  return typeof code === 'string' ? LISTEN_FAULTS[code] : undefined;
}
