import { describe, expect, it } from 'vitest';
import { startListing } from '../pagination/listing-server.ts';
import { serviceStage } from '../services/service-stage.ts';
import { USUAL } from '../support/databases.ts';
import { contentful } from './contentful.ts';
import { contentstack } from './contentstack.ts';
import { datocms } from './datocms.ts';
import type { DocumentedService } from './documented-service.ts';
import { kontentAi } from './kontent-ai.ts';
import { prismic } from './prismic.ts';
import { sanity } from './sanity.ts';
import { shopifyArticles } from './shopify-articles.ts';
import { storyblok } from './storyblok.ts';
import { webflow } from './webflow.ts';

/** Services, and what stands behind their origin in `base_url`. */
const SERVICES: [() => DocumentedService, string][] = [
  [contentful, '/spaces/blog/environments/master'],
  [sanity, ''],
  [storyblok, ''],
  [prismic, ''],
  [datocms, ''],
  [contentstack, ''],
  [kontentAi, '/975bf280'],
  [webflow, ''],
  [shopifyArticles, ''],
];

/** What was written a moment ago may be found deleted too. */
const AT_ONCE = { source: { deletes: { settle: '0s' } } };

type Auth = Record<string, unknown>;

const CASES = SERVICES.map(([make, base]) => ({ make, base, database: USUAL, name: make().profile }));

describe.for(CASES)('$name, as it is documented, on $database.name', ({ make, base, database }) => {
  async function staged(auth: (service: DocumentedService) => Auth) {
    const service = make();
    const server = await startListing((url, _, asked) =>
      service.answer(url, asked ?? { method: '', headers: {}, body: '' }),
    );
    const baseUrl = new URL(base, server.url).href.replace(/\/$/, '');
    const { profile, resources = {} } = service;
    const stage = await serviceStage({ baseUrl, auth: auth(service), profile, resources }, database, AT_ONCE);
    const run = async (command: 'sync' | 'backfill') => {
      const { status, resources: parts } = await stage.run(command);
      const told = parts.flatMap(({ resource, error, warnings = [] }) =>
        [...(error === undefined ? [] : [error]), ...warnings].map(({ code }) => `${resource}: ${code}`),
      );
      return { status, told };
    };
    return { service, server, run, differences: () => stage.differences(service.truth()) };
  }

  it('is copied, followed, and rid of what is deleted', async () => {
    const { service, run, differences } = await staged(({ auth }) => auth);
    expect(await run('backfill')).toEqual({ status: 'ok', told: [] });
    expect(await differences()).toEqual([]);
    for (const n of [3, 60, 500]) service.shelf.edit(n);
    expect(await run('sync')).toEqual({ status: 'ok', told: [] });
    expect(await differences()).toEqual([]);
    for (const n of [5, 60, 129]) service.shelf.remove(n);
    service.shelf.edit(7);
    expect(await run('sync')).toEqual({ status: 'ok', told: [] });
    for (let left = service.walks; left > 0; left -= 1) {
      expect((await run('backfill')).status).toBe(left === 1 ? 'ok' : 'partial');
    }
    expect(await differences()).toEqual([]);
  });

  it('is not read with a credential that it refuses', async () => {
    const { service, run } = await staged(({ auth, refused }) => refused ?? auth);
    const { status } = await run('backfill');
    expect(status).toBe(service.refused === null ? 'ok' : 'failed');
  });
});
