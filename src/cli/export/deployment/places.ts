import type { DeployedConfig } from './deployed-config.ts';

/** As the Dockerfile of this repository is built: `docker build -t content-sync .` */
export const IMAGE = 'content-sync';
/** Where the config's folder stands in a container. */
export const CONFIG_FOLDER = '/etc/content-sync';
/** The image's working folder. */
const DATA_FOLDER = '/var/lib/content-sync';
/** The user of the image, `node`. */
export const USER = 1_000;

/** Path of the config in a container. */
export function configPlace({ file }: Pick<DeployedConfig, 'file'>): string {
  return `${CONFIG_FOLDER}/${file}`;
}

/** Folder of the files that are written, in a container. */
export function dataPlace({ data }: Pick<DeployedConfig, 'data'>): string {
  return data ?? DATA_FOLDER;
}
