import { createAgent } from '../../http/dispatcher.ts';
import { createExchange } from '../../http/exchange.ts';
import { createGovernor } from '../../queue/governor.ts';
import { SyncError } from '../../model/errors.ts';
import type { Network } from '../../settings/network.ts';
import { profileSchema } from '../../source/profile.ts';
import { rateDialectSchema } from '../../source/rate-dialect.ts';
import { createAsker, type Asker, type AskerOptions } from './asker.ts';

/** An asker with connections of its own; it closes them when it is disposed of. */
export interface OpenedAsker extends AsyncDisposable {
  asker: Asker;
}

interface AskerPlace extends Omit<AskerOptions, 'exchange' | 'governor'> {
  /** The proxies of the environment; none if absent. */
  network?: Network | undefined;
}

/** A longer wait than this is not waited for: a person is sitting there. */
const LONGEST_WAIT_MS = 60_000;

/** Opens connections to a service that nothing is known of: one request at a time, at the pace that it states. */
export function openAsker({ network, ...options }: AskerPlace): OpenedAsker {
  const { clock } = options;
  const http = { ...defaultHttp(), timeout: 30_000, headers_timeout: 20_000 };
  const agent = createAgent(http, { network, ca: undefined, insecure: false });
  const governor = createGovernor({
    clock,
    dialect: rateDialectSchema.parse('auto'),
    share: 0.9,
    concurrency: 1,
    maxWaitMs: LONGEST_WAIT_MS,
  });
  return {
    asker: createAsker({ ...options, exchange: createExchange(agent, http, clock), governor }),
    async [Symbol.asyncDispose]() {
      await agent.destroy();
      await governor.close();
    },
  };
}

/** The error of a service of which no question was answered. */
export function unreachable({ origin }: URL, why: string): SyncError {
  return new SyncError('probe_failed', `nothing answers at ${origin}: ${why}`, {
    recovery: 'stop',
    hint: 'check the address, that the service runs, and what stands between here and there (network, proxy, certificate)',
  });
}

function defaultHttp() {
  return profileSchema.parse({ resources: { any: { path: '/', page: { style: 'page' } } } }).http;
}
