import { stringify } from 'yaml';
import { configPlace, dataPlace, IMAGE } from './places.ts';
import type { DeployedConfig } from './deployed-config.ts';

/** How long a process may finish the page in hand: more than `content-sync` takes for itself. */
const STOP = '20s';

/** A file for `docker compose`: `serve`, and two workers where they can share the work. */
export function composeFile(config: DeployedConfig): string {
  const { port, workerPort, isShared } = config;
  const serve = {
    ...processOf(config),
    command: ['serve', '--host', '0.0.0.0'],
    ports: [`127.0.0.1:${port}:${port}`],
    healthcheck: healthcheck('serve'),
  };
  const worker = {
    ...processOf(config),
    command: ['worker'],
    ...(workerPort === null ? { healthcheck: { disable: true } } : { healthcheck: healthcheck('worker') }),
    deploy: { replicas: 2 },
  };
  return stringify({
    services: { serve, ...(isShared ? { worker } : {}) },
    ...(isShared ? {} : { volumes: { data: {} } }),
  });
}

function processOf(config: DeployedConfig) {
  const data = dataPlace(config);
  const files = config.isShared ? [] : [`data:${data}`];
  return {
    image: IMAGE,
    restart: 'unless-stopped',
    init: true,
    read_only: true,
    tmpfs: ['/tmp'],
    cap_drop: ['ALL'],
    security_opt: ['no-new-privileges:true'],
    stop_grace_period: STOP,
    environment: { CONTENT_SYNC_CONFIG: configPlace(config), ...fromEnvironment(config) },
    volumes: [`${config.folder}:/etc/content-sync:ro`, ...files],
    mem_limit: '512m',
  };
}

/** Compose fails with the name if one is missing. */
function fromEnvironment({ names }: DeployedConfig): Record<string, string> {
  return Object.fromEntries(names.map((name) => [name, `\${${name}:?is read by the config}`]));
}

function healthcheck(of: 'serve' | 'worker') {
  const test = ['CMD', 'node', '/app/dist/src/main.js', 'health', of];
  return { test, interval: '30s', timeout: '10s', start_period: '60s' };
}
