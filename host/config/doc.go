// Package config reads the YAML file that describes a deployment: what runs,
// within which limits, who is let in and who pays. Unknown keys, duplicates and
// values of the wrong type are errors with line and column.
//
// The file never holds a secret. Where one is needed it names an environment
// variable or a file, which Host and Secret.Read resolve when asked.
//
// It is not the only way to configure a host: an embedding program may fill
// host.Options itself and never read a file.
package config
