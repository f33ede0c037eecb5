import type { Clock } from '../../../src/model/clock.ts';
import type { Access } from './access.ts';
import type { Answer, ApiRequest } from './answer.ts';
import type { PageCache } from './pages/listing-page.ts';
import type { RecordStore } from '../../../src/sandbox/records/store.ts';
import type { SandboxSettings } from './sandbox-options.ts';
import type { Webhooks } from '../../../src/sandbox/webhooks.ts';

/** The parts of the service that routes use. */
export interface Service {
  settings: SandboxSettings;
  /** The service's own clock, skew included. */
  clock: Clock;
  store: RecordStore;
  cache: PageCache;
  access: Access;
  webhooks: Webhooks;
}

/** One route; refuses by throwing a `RefusedRequest`. */
export type Handler = (service: Service, request: ApiRequest) => Answer | Promise<Answer>;
