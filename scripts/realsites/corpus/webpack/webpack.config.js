const Css = require('mini-css-extract-plugin'), Html = require('html-webpack-plugin');
module.exports = { mode: 'production', entry: './main.js',
  output: { filename: 'js/[name].[contenthash:8].js', chunkFilename: 'js/[name].[contenthash:8].js', clean: true },
  module: { rules: [{ test: /\.css$/, use: [Css.loader, 'css-loader'] }, { test: /\.svg$/, type: 'asset/resource' }] },
  plugins: [new Css({ filename: 'css/[name].[contenthash:8].css' }), new Html({ title: 'webpack' })] };